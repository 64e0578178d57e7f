"""Revocations: once heard they hold, in whatever order they come."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest

from authz.errors import InvalidSignature
from authz.spki import Capability, InvalidCapability, Notice, Revocations, Validity, parse_authority
from authz.spki.revocation import Revoked
from tests.authz.spki.generators import KEYS, OWNER

AUTHORITY = parse_authority("type: a.B\naction: *")
CERTIFICATES = [
    Capability(OWNER.public, key.public, False, AUTHORITY, Validity(0, 100 * n or None)).sign(OWNER)
    for n, key in enumerate(KEYS[1:5])
]
FIRST = Notice.first(OWNER, 10)
SECOND = FIRST.following(OWNER, 20, CERTIFICATES[:2])
THIRD = SECOND.following(OWNER, 150, CERTIFICATES[2:3])
EVENT = Notice.event(OWNER, CERTIFICATES[3], 25)


def test_what_is_known_does_not_depend_on_the_order_of_hearing():
    states = [Revocations.of(*order) for order in permutations([FIRST, SECOND, THIRD, EVENT, SECOND])]
    assert all(state == states[0] for state in states)
    assert states[0].age(OWNER.public, 160) == 10
    assert all(states[0].revoker([each.id], [OWNER.public]) == OWNER.public for each in CERTIFICATES)


def test_an_old_list_does_not_make_the_news_fresh():
    state = Revocations.of(THIRD, FIRST)
    assert state.age(OWNER.public, 200) == 50


def test_an_event_is_no_list():
    assert Revocations.of(EVENT).age(OWNER.public, 30) is None


def test_a_list_drops_what_has_expired_and_so_does_memory_for_want_of_room(monkeypatch):
    assert {each.id for each in SECOND.revoked} == {CERTIFICATES[0].id, CERTIFICATES[1].id}
    assert {each.id for each in THIRD.revoked} == {CERTIFICATES[0].id, CERTIFICATES[2].id}
    state = Revocations.of(SECOND)
    state.forget(100)
    assert state.revoker([CERTIFICATES[1].id], [OWNER.public])
    monkeypatch.setattr("authz.spki.revocation.KEPT", 0)
    state.forget(100)
    assert state.revoker([CERTIFICATES[0].id], [OWNER.public])
    assert not state.revoker([CERTIFICATES[1].id], [OWNER.public])


def test_the_later_time_to_forget_prevails(monkeypatch):
    monkeypatch.setattr("authz.spki.revocation.KEPT", 0)
    soon = msgspec.structs.replace(EVENT, revoked=(Revoked(EVENT.revoked[0].id, 30),))
    for order in ([soon, EVENT], [EVENT, soon]):
        state = Revocations.of(*(notice._sign(OWNER) for notice in order))
        state.forget(200)
        assert state.revoker([CERTIFICATES[3].id], [OWNER.public])


def test_a_forged_notice_is_refused():
    forged = msgspec.structs.replace(EVENT, issuer=KEYS[1].public)
    with pytest.raises(InvalidSignature):
        Revocations.of(forged)
    with pytest.raises(InvalidSignature):
        SECOND.following(KEYS[1], 30)


def test_an_event_signed_as_such_cannot_be_passed_off_as_a_list():
    with pytest.raises(InvalidSignature):
        Revocations.of(msgspec.structs.replace(EVENT, number=99))


@pytest.mark.parametrize(
    "parts",
    [(-1, ()), (1, (), 0), (1, (Revoked(b"b" * 32), Revoked(b"a" * 32))), (1, (Revoked(b"a" * 32),) * 2)],
)
def test_a_notice_that_makes_no_sense_is_refused(parts):
    with pytest.raises(InvalidCapability):
        Notice(OWNER.public, *parts)


def test_a_revoked_key_is_revoked_for_good_by_its_issuer_alone_and_in_every_list_that_follows():
    key, other = KEYS[1].public, KEYS[2].public
    event = Notice.of_key(OWNER, key, 10)
    state = Revocations.of(event)
    state.forget(10**9)
    assert state.has_revoked(OWNER.public, key)
    assert not state.has_revoked(OWNER.public, other)
    assert not state.has_revoked(other, key)
    assert event.following(OWNER, 10**9).revoked == event.revoked


def test_a_list_stands_for_what_came_before_it_unless_it_leaves_out_what_lives():
    assert SECOND.covers(FIRST)
    assert THIRD.covers(SECOND)
    assert not SECOND.covers(THIRD)
    assert not THIRD.covers(EVENT)
    assert not EVENT.covers(EVENT)
    assert THIRD.following(OWNER, 160, CERTIFICATES[3:]).covers(EVENT)
    assert not Notice.first(KEYS[1], 200).covers(FIRST)


def test_hearing_one_more_leaves_what_others_have_said_where_it_is():
    """So the cost of reading a store grows with what stands in it, and no faster."""
    state = Revocations.of(EVENT)
    everything, known = state.revoked, state.revoked[OWNER.public]
    state.accept(Notice.of_key(KEYS[1], KEYS[2].public, 30))
    state.accept(SECOND)
    assert state.revoked is everything
    assert state.revoked[OWNER.public] is known
    assert len(known) == 3

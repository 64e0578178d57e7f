"""Whose answers count, and about what: only of those whom a trusted root empowered, as far, and as long."""

from __future__ import annotations

import msgspec
import pytest

from authz import AuthFabricError, Entity, Identity, Request
from authz.authority.deciders import Deciders
from authz.authority.introduction import Introduction
from authz.crypto.agreement import AgreementKey
from authz.errors import InvalidKey, InvalidSignature
from authz.spki import Capability, Certificate, ChainRefused, Fault, Notice, Validity, parse_authority
from authz.spki.errors import RevocationUnknown
from authz.spki.validity import Recheck

ROOT, OTHER_ROOT, MIDDLE, PDP, EVE = (Identity.generate() for _ in range(5))
SALES = Request.of("ann", "/sales/q1", "read")
HR = Request.of("ann", "/hr/pay", "read")


def grant(
    issuer: Identity,
    to: Identity,
    text: str = "object: *\naction: decide",
    *,
    delegate: bool = False,
    **validity,
) -> Certificate:
    return Capability(issuer.public, to.public, delegate, parse_authority(text), Validity(**validity)).sign(
        issuer
    )


def introduction(*chain: Certificate, identity: Identity = PDP, at: float = 0.0) -> bytes:
    return Introduction.of(identity, chain, at).encode()


def signed(introduction: Introduction, by: Identity = PDP) -> bytes:
    """Signed as it stands, as only the holder of the key could."""
    return msgspec.structs.replace(introduction, signature=by.sign(introduction.signed())).encode()


@pytest.fixture
def deciders() -> Deciders:
    return Deciders([OTHER_ROOT.public, ROOT.public])


def test_whoever_a_root_empowered_may_decide_what_it_was_given(deciders):
    decider = deciders.introduce(introduction(grant(ROOT, PDP, "object: /sales/*\naction: decide")), 0.0)
    assert deciders.get(PDP.public.raw, 0.0) is decider
    assert decider.key == PDP.public
    assert decider.may_decide(SALES, 0.0)
    assert decider.may_decide(SALES, 0.0)
    assert not decider.may_decide(HR, 0.0)
    assert not decider.may_decide(HR, 0.0)


def test_everything_means_every_object(deciders):
    decider = deciders.introduce(introduction(grant(ROOT, PDP)), 0.0)
    assert decider.may_decide(SALES, 0.0)
    assert decider.may_decide(Request.of("ann", "urn:x", "read"), 0.0)


def test_a_right_over_something_else_is_none_to_decide(deciders):
    with pytest.raises(ChainRefused) as refused:
        deciders.introduce(introduction(grant(ROOT, PDP, "network: *\naction: connect")), 0.0)
    assert refused.value.fault is Fault.WIDENED


def test_conditions_are_looked_at_each_time(deciders):
    text = 'object: *\naction: decide\nwhere: subject.department == "sales"'
    decider = deciders.introduce(introduction(grant(ROOT, PDP, text)), 0.0)
    assert decider.may_decide(Request.of(Entity("ann", {"department": "sales"}), "/x", "read"), 0.0)
    assert not decider.may_decide(Request.of(Entity("ann", {"department": "hr"}), "/x", "read"), 0.0)


def test_a_rate_is_used_up(deciders):
    text = "object: *\naction: decide\nrate: 2 per hour"
    decider = deciders.introduce(introduction(grant(ROOT, PDP, text)), 0.0)
    assert [decider.may_decide(SALES, 1.0) for _ in range(3)] == [True, True, False]


def test_a_strangers_word_counts_for_nothing(deciders):
    with pytest.raises(ChainRefused) as refused:
        deciders.introduce(introduction(grant(EVE, PDP)), 0.0)
    assert refused.value.fault is Fault.NOT_AN_OWNER
    assert deciders.get(PDP.public.raw, 0.0) is None


def test_a_stolen_chain_introduces_nobody_but_its_holder(deciders):
    chain = (grant(ROOT, PDP),)
    with pytest.raises(ChainRefused) as refused:
        deciders.introduce(introduction(*chain, identity=EVE), 0.0)
    assert refused.value.fault is Fault.NOT_THE_HOLDER
    mine = Introduction.of(EVE, chain, 0.0)
    with pytest.raises(InvalidSignature):
        deciders.introduce(msgspec.structs.replace(mine, key=PDP.public.raw).encode(), 0.0)
    assert len(deciders) == 0


@pytest.mark.parametrize("data", [b"", b"junk", bytes(70_000), msgspec.msgpack.encode([b"", b"", b"", b""])])
def test_what_is_no_introduction_is_refused(deciders, data):
    with pytest.raises(AuthFabricError):
        deciders.introduce(data, 0.0)


def test_an_agreement_key_that_fixes_the_secret_is_refused(deciders):
    mine = Introduction.of(PDP, (grant(ROOT, PDP),), 0.0)
    with pytest.raises(InvalidKey):
        deciders.introduce(signed(msgspec.structs.replace(mine, agreement=bytes(32))), 0.0)


def test_authority_ends_when_the_chain_does(deciders):
    deciders.introduce(introduction(grant(ROOT, PDP, end=100)), 50.0)
    assert deciders.get(PDP.public.raw, 99.9) is not None
    assert deciders.get(PDP.public.raw, 100.0) is None


def test_a_revocation_ends_it_at_once_and_a_new_introduction_does_not_bring_it_back(deciders):
    first, second = grant(ROOT, MIDDLE, delegate=True), grant(MIDDLE, PDP)
    deciders.introduce(introduction(first, second), 0.0)
    deciders.accept(Notice.event(MIDDLE, second, 1), 1.0)
    assert deciders.get(PDP.public.raw, 1.0) is None
    with pytest.raises(ChainRefused) as refused:
        deciders.introduce(introduction(first, second), 1.0)
    assert refused.value.fault is Fault.REVOKED


def test_nobody_revokes_what_others_issued_and_forged_notices_are_refused(deciders):
    chain = grant(ROOT, PDP)
    deciders.introduce(introduction(chain), 0.0)
    deciders.accept(Notice.event(EVE, chain, 1), 1.0)
    forged = msgspec.structs.replace(Notice.event(EVE, chain, 1), issuer=ROOT.public)
    with pytest.raises(InvalidSignature):
        deciders.accept(forged, 1.0)
    assert deciders.get(PDP.public.raw, 1.0) is not None


def test_where_fresh_news_is_asked_for_authority_rests_on_it(deciders):
    chain = grant(ROOT, PDP, rechecks=(Recheck(ROOT.public, 10),))
    with pytest.raises(ChainRefused):
        deciders.introduce(introduction(chain), 0.0)
    first = Notice.first(ROOT, 0)
    deciders.accept(first, 0.0)
    deciders.introduce(introduction(chain), 0.0)
    assert deciders.get(PDP.public.raw, 9.0) is not None
    deciders.accept(first.following(ROOT, 8), 9.0)
    assert deciders.get(PDP.public.raw, 17.0) is not None
    assert deciders.get(PDP.public.raw, 18.5) is None


def test_an_older_introduction_that_is_repeated_changes_nothing(deciders):
    narrow = introduction(grant(ROOT, PDP, "object: /sales/*\naction: decide", end=200))
    wide = introduction(grant(ROOT, PDP, end=100), at=1.0)
    for each in (narrow, wide, narrow):
        deciders.introduce(each, 2.0)
    assert deciders.get(PDP.public.raw, 50.0).may_decide(HR, 50.0)


def test_a_later_introduction_takes_the_place_of_one_in_force_also_to_narrow_it(deciders):
    deciders.introduce(introduction(grant(ROOT, PDP, end=200)), 2.0)
    deciders.introduce(
        introduction(grant(ROOT, PDP, "object: /sales/*\naction: decide", end=100), at=1.0), 2.0
    )
    assert not deciders.get(PDP.public.raw, 50.0).may_decide(HR, 50.0)


def test_one_in_force_is_replaced_by_its_successor_only(deciders):
    """However well signed: a decider's agreement key follows from its identity, and another is not its own."""
    chain, other = (grant(ROOT, PDP, end=100),), AgreementKey.generate()
    known = deciders.introduce(introduction(*chain), 0.0)
    forged = msgspec.structs.replace(Introduction.of(PDP, chain, 1.0), agreement=other.public)
    with pytest.raises(InvalidSignature):
        deciders.introduce(signed(forged), 1.0)
    assert deciders.get(PDP.public.raw, 1.0) is known


def test_parts_of_two_introductions_make_no_third(deciders):
    old, new = (
        Introduction.of(PDP, (grant(ROOT, PDP, text, end=100),), at)
        for text, at in (("object: /sales/*\naction: decide", 0.0), ("object: *\naction: decide", 1.0))
    )
    deciders.introduce(new.encode(), 1.0)
    for mixed in (
        msgspec.structs.replace(old, at=2.0),
        msgspec.structs.replace(new, chain=old.chain, at=2.0),
        msgspec.structs.replace(new, at=2.0),
    ):
        with pytest.raises(InvalidSignature):
            deciders.introduce(mixed.encode(), 2.0)


def test_a_new_introduction_gives_no_rate_back(deciders):
    chain = grant(ROOT, PDP, "object: *\naction: decide\nrate: 2 per hour")
    for at in range(3):
        decider = deciders.introduce(introduction(chain, at=float(at)), 2.0)
        assert decider.may_decide(SALES, 2.0) is (at < 2)


def test_there_is_room_for_so_many_and_no_more():
    deciders = Deciders([ROOT.public], most=2)
    several = [Identity.generate() for _ in range(3)]
    for each in several:
        deciders.introduce(introduction(grant(ROOT, each), identity=each), 0.0)
    assert len(deciders) == 2
    assert deciders.get(several[2].public.raw, 0.0) is not None


def test_nobody_is_introduced_before_it_is_known_what_its_issuers_have_revoked():
    known, asked = set(), []

    def follow(key, by):
        asked.append((key, by))
        return key in known

    deciders = Deciders([OTHER_ROOT.public, ROOT.public], follow=follow)
    chain = introduction(grant(ROOT, MIDDLE, delegate=True), grant(MIDDLE, PDP))
    with pytest.raises(RevocationUnknown) as refused:
        deciders.introduce(chain, 0.0)
    assert (refused.value.link, refused.value.key) == (1, ROOT.public)
    assert asked == [(ROOT.public, ROOT.public), (MIDDLE.public, MIDDLE.public)]
    known.add(ROOT.public)
    with pytest.raises(RevocationUnknown, match="link 2"):
        deciders.introduce(chain, 0.0)
    known.add(MIDDLE.public)
    deciders.introduce(chain, 0.0)
    known.clear()
    assert deciders.introduce(chain, 0.0) is deciders.get(PDP.public.raw, 0.0)  # whom it knows already stays
    deciders.forget(MIDDLE.public)
    assert deciders.get(PDP.public.raw, 0.0) is None


def test_whoever_asks_for_fresh_news_has_them_read():
    asked = []
    deciders = Deciders([ROOT.public], follow=lambda key, by: asked.append((key, by)) is None)
    chain = grant(MIDDLE, PDP, rechecks=(Recheck(EVE.public, 10),))
    with pytest.raises(RevocationUnknown):
        deciders.introduce(introduction(grant(ROOT, MIDDLE, delegate=True), chain), 0.0)
    assert asked == [(EVE.public, MIDDLE.public)]


def test_with_no_root_nobody_counts():
    with pytest.raises(InvalidSignature):
        Deciders([]).introduce(introduction(grant(ROOT, PDP)), 0.0)

"""A manager admits whom a capability names, for the attributes it grants, if it has signed for this manager lately."""

import os
import time

import msgspec
import pytest

from authz import Identity
from authz.spki import Right
from authz.spki.condition import Rate
from pubsub_core.key_groups.admission import entitle
from pubsub_core.key_groups.key_group import GroupRecord, KeyGroup, Rules
from pubsub_core.key_groups.messages import REQUEST_DOMAIN, Request, SignedRequest, encode
from pubsub_core.keys.errors import AdmissionRefused
from tests.pubsub_core.keys.office import MANAGER, NAMES, TYPE, certificate, chain, of, office

OFFICE = office("a" * 32)
LOCATION, PLATE = (of(OFFICE.keyed, attribute) for attribute in tuple(NAMES)[:2])
ME = Identity.from_seed(b"b" * 32)


def request(**changes) -> Request:
    asked = Request(str(MANAGER.public), time.time(), (PLATE,), chain(ME), b"k" * 32)
    return msgspec.structs.replace(asked, **changes)


def signed(asked: Request, by: Identity = ME) -> bytes:
    content = encode(asked)
    return encode(SignedRequest(content, by.sign(REQUEST_DOMAIN + content)))


def test_a_request_in_order_is_for_the_groups_it_names():
    admission = OFFICE.judge(signed(request(groups=(PLATE, LOCATION))), time.time())
    assert admission.name == str(ME.public)
    assert set(admission.members) == {PLATE, LOCATION}
    assert admission.members[PLATE].own_key != admission.members[LOCATION].own_key


@pytest.mark.parametrize(
    "changes",
    [
        {"manager": str(ME.public)},
        {"at": time.time() - 3600},
        {"at": time.time() + 3600},
        {"at": float("nan")},
        {"manager": "nobody"},
        {"groups": ()},
        {"groups": ("c" * 32,)},
        {"own_key": b"short"},
        {"chain": b""},
        {"chain": chain(ME, ["location"])},
        {"chain": chain(ME, lasts=-10)},
        {"chain": chain(Identity.from_seed(b"x" * 32))},
    ],
)
def test_anything_out_of_order_is_refused(changes):
    with pytest.raises(AdmissionRefused):
        OFFICE.judge(signed(request(**changes)), time.time())


def test_only_whom_the_capability_names_can_have_signed():
    for data in (signed(request(), by=MANAGER), b"", os.urandom(100)):
        with pytest.raises(AdmissionRefused):
            OFFICE.judge(data, time.time())


def test_an_older_request_than_the_last_is_not_heeded():
    now = time.time()
    group = KeyGroup(GroupRecord(PLATE), Rules())
    newer = OFFICE.judge(signed(request(at=now)), now)
    older = OFFICE.judge(signed(request(at=now - 5, own_key=b"o" * 32)), now)
    gone = OFFICE.judge(signed(request(at=now - 5, leave=True)), now)
    assert OFFICE.admit(group, newer, now)
    for replayed in (older, gone):
        with pytest.raises(AdmissionRefused):
            OFFICE.admit(group, replayed, now)
    assert not group.members[str(ME.public)].tenure.left


def test_a_replayed_request_does_not_take_back_that_someone_has_left():
    now = time.time()
    group = KeyGroup(GroupRecord(PLATE), Rules())
    joining = OFFICE.judge(signed(request(at=now - 5)), now)
    leaving = OFFICE.judge(signed(request(at=now, leave=True)), now)
    assert OFFICE.admit(group, joining, now)
    assert OFFICE.admit(group, leaving, now)
    with pytest.raises(AdmissionRefused):
        OFFICE.admit(group, joining, now)
    assert group.members[str(ME.public)].tenure.left


def test_asking_again_changes_nothing():
    now = time.time()
    group = KeyGroup(GroupRecord(PLATE), Rules())
    assert OFFICE.admit(group, OFFICE.judge(signed(request(at=now)), now), now)
    assert not OFFICE.admit(group, OFFICE.judge(signed(request(at=now + 1)), now), now)


@pytest.mark.parametrize("attributes", [["location"], ["location", "sighted"]])
def test_a_grant_of_some_attributes_is_for_those_only(attributes):
    capability = certificate(ME, attributes).open()
    assert entitle(capability, TYPE, attributes).end == float("inf")
    with pytest.raises(AdmissionRefused):
        entitle(capability, TYPE, ["numberplate"])
    with pytest.raises(AdmissionRefused):
        entitle(capability, TYPE, [*attributes, "numberplate"])
    with pytest.raises(AdmissionRefused):
        entitle(capability, "uk.gov.pito.Other", attributes)


def test_what_is_granted_at_a_rate_gives_no_key():
    capability = certificate(ME, conditions=[Rate(5, 60)]).open()
    assert capability.authority.select(Right.SUBSCRIBE, TYPE)
    with pytest.raises(AdmissionRefused):
        entitle(capability, TYPE, ["location"])

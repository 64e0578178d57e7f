"""What each broker may carry follows from vouches, from its own record, and from nothing that others make up."""

from __future__ import annotations

import pytest

from authz import Identity
from bus.wire import subjects
from pubsub_core.carriage.carrier_rights import MAX_CARRIED, MAX_OWNERS, CarrierRights, carrier_record
from pubsub_core.carriage.records import word_record
from pubsub_core.trust.vouches import ALL, MAX_WORDS, vouch, withdraw

OWNER, BROKER, OTHER, STRANGER = (Identity.from_seed(bytes([n]) * 32) for n in range(4))
WORD = subjects.place(OWNER.public)
PLACE = "PLACE"
NOW = 1000.0


class Known(CarrierRights):
    """Rights to which things are told in few words."""

    def tell(self, *words: bytes, place: str = "SOMEBODY") -> None:
        for each in words:
            what, data = word_record(each)
            self.hear(subjects.broker_record("met", place, what), data)

    def carrier(
        self, *owners: Identity, by: Identity = BROKER, place: str = PLACE, at: float = NOW, below=""
    ):
        what, data = carrier_record(place, [str(each.public) for each in owners], at, by)
        self.hear(subjects.broker_record("met", below or place, what), data)

    def may(self, type_: str = "t", owner: Identity = OWNER, place: str = PLACE, now: float = NOW) -> bool:
        return self.carried(place, now).allows(subjects.place(owner.public), type_)


@pytest.fixture
def rights() -> Known:
    known = Known()
    known.carrier(OWNER)
    return known


def for_broker(types=(ALL,), by=OWNER, to=BROKER, until=NOW + 500, made=NOW) -> bytes:
    return vouch(to.public, types, until, by, made)


def test_a_broker_carries_what_the_owner_vouches_for_and_nothing_else(rights):
    assert not rights.may()
    rights.tell(for_broker(["t"]))
    assert rights.may("t")
    assert not rights.may("u")
    assert not rights.may("t", STRANGER)
    assert not rights.may(place="ANOTHER")


def test_a_chain_of_vouches_counts_as_far_as_each_of_them_goes(rights):
    rights.tell(for_broker(["t", "u"], to=OTHER), for_broker(["u", "v"], by=OTHER))
    assert [rights.may(each) for each in "tuv"] == [False, True, False]


def test_what_is_taken_back_or_has_run_out_is_not_carried(rights):
    rights.tell(for_broker())
    assert rights.may("t")
    rights.tell(withdraw(BROKER.public, ["t"], NOW + 1, OWNER))
    assert not rights.may("t", now=NOW + 2)
    assert rights.may("u", now=NOW + 2), "the rest stays"
    assert not rights.may("u", now=NOW + 501)


def test_the_owner_and_roots_need_no_vouch():
    rights = Known([OTHER.public])
    rights.carrier(OWNER, by=OWNER)
    rights.carrier(OWNER, by=OTHER, place="ROOT")
    rights.carrier(OWNER, by=BROKER, place="VOUCHED")
    assert rights.may()
    assert rights.may(place="ROOT")
    rights.tell(for_broker(by=OTHER))
    assert rights.may(place="VOUCHED")


def test_nobody_has_another_brokers_rights_by_repeating_what_it_says(rights):
    rights.tell(for_broker())
    rights.carrier(OWNER, place=PLACE, below="THIEF")
    assert not rights.may(place="THIEF")
    rights.carrier(OWNER, by=STRANGER, place="THIEF")
    assert not rights.may(place="THIEF")


def test_an_older_record_of_a_broker_does_not_replace_a_newer_one(rights):
    rights.tell(for_broker())
    rights.carrier(at=NOW + 1)
    assert not rights.may()
    rights.carrier(OWNER, at=NOW)
    assert not rights.may()


def test_vouches_that_strangers_make_up_give_and_take_nothing(rights):
    rights.tell(for_broker())
    before = rights.carried(PLACE, NOW)
    assert rights.may()
    for number in range(50):
        owner = Identity.from_seed(number.to_bytes(32, "big"))
        rights.tell(for_broker(by=owner))
    rights.tell(for_broker(made=NOW + 1))  # so that all of it is looked at again
    assert rights.carried(PLACE, NOW) == before
    assert len(rights._web.words) < MAX_WORDS


def test_a_broker_is_given_so_many_types_at_most(rights):
    count = 100
    for number in range(MAX_CARRIED // count + 1):
        rights.tell(for_broker([f"{number}-{each}" for each in range(count)], made=NOW + number / 100))
    assert len(rights.carried(PLACE, NOW + 1).allowed) == MAX_CARRIED
    owners = [Identity.from_seed(number.to_bytes(32, "little")) for number in range(MAX_OWNERS + 10)]
    rights.carrier(*owners, at=NOW + 2)
    assert len(rights._web.owners) == MAX_OWNERS

"""Proofs: signed by the publisher, for exactly these events, once."""

from __future__ import annotations

import msgspec
import pytest

from authz.errors import InvalidSignature
from pubsub_core.events.batch_signature import (
    DIGEST_BYTES,
    Nonces,
    Proof,
    Scrutiny,
    all_digests,
    check_places,
)
from tests.pubsub_core.kinds import MET, THIEF

EVENTS = [msgspec.Raw(bytes([n]) * 5) for n in range(4)]
RUNS = [1, 2, 1]
DIGESTS = all_digests(EVENTS, RUNS)
PROOF = Proof(b"credential", 5.0, b"n" * 16).sign(MET, DIGESTS)


def test_a_proof_holds_for_its_signer_and_its_events():
    PROOF.verify(MET.public, DIGESTS)


@pytest.mark.parametrize(
    "change", [{"credential": b"other"}, {"time": 6.0}, {"nonce": b"m" * 16}, {"by": b"k" * 32}]
)
def test_a_proof_that_was_altered_does_not_hold(change):
    with pytest.raises(InvalidSignature):
        msgspec.structs.replace(PROOF, **change).verify(MET.public, DIGESTS)


def test_a_proof_does_not_hold_for_others_or_for_other_events():
    with pytest.raises(InvalidSignature):
        PROOF.verify(THIEF.public, DIGESTS)
    with pytest.raises(InvalidSignature):
        PROOF.verify(MET.public, all_digests(EVENTS[:3]))


def test_runs_of_events_are_those_whose_digests_stand_at_their_places():
    assert len(DIGESTS) == len(RUNS) * DIGEST_BYTES
    check_places(DIGESTS, [1, 2], EVENTS[1:], [2, 1])
    for places in ([2, 1], [1, 3], [1, -1], [1]):
        with pytest.raises(InvalidSignature):
            check_places(DIGESTS, places, EVENTS[1:], [2, 1])


@pytest.mark.parametrize("runs", [[1, 2], [1, 3], [1, 2, 2], [2, 1, 1], [-1, 2, 3]])
def test_events_are_not_in_other_runs_than_those_that_were_signed(runs):
    with pytest.raises(InvalidSignature):
        PROOF.verify(MET.public, all_digests(EVENTS, runs))


def test_a_nonce_is_used_once_and_in_time():
    nonces = Nonces(window=10.0)
    one, two = b"1" * 16, b"2" * 16
    assert nonces.use(one, 100.0, 100.0)
    assert not nonces.use(one, 100.0, 101.0)
    assert not nonces.use(two, 100.0, 111.0)
    assert not nonces.use(two, 122.0, 111.0)
    assert not nonces.use(two, float("nan"), 111.0), "of no time, so it could be used again and again"
    assert not nonces.use(b"short", 111.0, 111.0)
    assert nonces.use(two, 111.0, 111.0)
    assert not nonces.use(one, 100.0, 140.0), "forgotten, but too old by then"


def test_a_share_is_verified_and_everything_of_whoever_was_caught():
    chances = iter([0.1, 0.9, 0.2, 0.6] * 100)
    scrutiny = Scrutiny(0.5, lambda: next(chances), after_failure=3)
    assert [scrutiny.wants("a") for _ in range(4)] == [True, False, True, False]
    scrutiny.caught("a")
    assert [scrutiny.wants("a") for _ in range(3)] == [True, True, True]
    assert not Scrutiny(0.0, lambda: 0.0).wants("a")
    assert Scrutiny(1.0, lambda: 0.999).wants("a")

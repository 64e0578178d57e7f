"""The web of trust, and the owners' heartbeats."""

from __future__ import annotations

from itertools import pairwise

import pytest

from authz import Identity
from authz.errors import InvalidSignature
from pubsub_core.trust.broker_trust import BEAT_LIMIT, Web, beat
from pubsub_core.trust.vouches import ALL, MAX_STEPS, vouch, withdraw
from tests.pubsub_core.kinds import MET, PITO, THIEF

OWNER = str(PITO.public)
ONE, TWO = Identity.generate(), Identity.generate()


def web(*words: bytes, roots=()) -> Web:
    made = Web(roots)
    made.owners = frozenset({OWNER})
    made.learn(*words)
    return made


def trusts(made: Web, broker: Identity, type_: str = "t", now: float = 0.0) -> bool:
    return made.trusts(str(broker.public), type_, OWNER, now)


def test_whom_the_owner_vouches_for_is_trusted_with_the_types_named_until_the_time_named():
    made = web(vouch(ONE.public, ["t"], 10, PITO))
    assert trusts(made, ONE)
    assert not trusts(made, ONE, "u")
    assert not trusts(made, ONE, now=10)
    assert not trusts(made, TWO)


def test_the_trusted_may_vouch_for_others_and_strangers_may_not():
    assert trusts(web(vouch(ONE.public, [ALL], 10, PITO), vouch(TWO.public, ["t"], 10, ONE)), TWO)
    assert not trusts(web(vouch(ONE.public, ["u"], 10, PITO), vouch(TWO.public, ["t"], 10, ONE)), TWO)
    assert not trusts(web(vouch(TWO.public, [ALL], 10, THIEF)), TWO)
    assert trusts(web(vouch(TWO.public, [ALL], 10, MET), roots=[MET.public]), TWO)


def test_trust_ends_after_a_few_steps():
    chain = [PITO, *(Identity.generate() for _ in range(MAX_STEPS + 1))]
    words = [vouch(after.public, [ALL], 10, before) for before, after in pairwise(chain)]
    made = web(*words)
    assert trusts(made, chain[MAX_STEPS])
    assert not trusts(made, chain[MAX_STEPS + 1])


def test_a_word_is_taken_back_by_whoever_gave_it_and_may_be_given_anew():
    given = vouch(ONE.public, [ALL], 100, PITO, made=1)
    assert not trusts(web(given, withdraw(ONE.public, [ALL], 2, PITO)), ONE)
    assert not trusts(web(withdraw(ONE.public, [ALL], 1, PITO), given), ONE), "in whichever order it is heard"
    other = vouch(THIEF.public, [ALL], 100, PITO)
    assert trusts(web(given, other, withdraw(ONE.public, [ALL], 2, THIEF)), ONE)
    assert trusts(web(given, withdraw(TWO.public, [ALL], 2, PITO)), ONE)
    some = web(given, withdraw(ONE.public, ["u"], 2, PITO))
    assert trusts(some, ONE, "t")
    assert not trusts(some, ONE, "u")
    again = web(given, withdraw(ONE.public, [ALL], 2, PITO), vouch(ONE.public, [ALL], 100, PITO, made=3))
    assert trusts(again, ONE)


def test_a_word_that_was_dated_ahead_is_taken_back_all_the_same():
    """Made while the signer's clock was a year ahead, it would be newer than any withdrawal until then."""
    made = web(vouch(ONE.public, [ALL], 10_000_000, PITO, made=5_000_000))
    assert not trusts(made, ONE, now=100.0)
    assert made.learn(vouch(ONE.public, ["t"], 1000, PITO, made=90))
    assert trusts(made, ONE, now=100.0)
    assert made.learn(withdraw(ONE.public, [ALL], 101, PITO))
    assert not trusts(made, ONE, now=102.0)
    assert not made.chain(OWNER, str(ONE.public), "t", 102.0)


def test_with_a_broker_those_fall_for_whom_it_alone_vouches():
    words = vouch(ONE.public, [ALL], 100, PITO, made=1), vouch(TWO.public, [ALL], 100, ONE, made=1)
    assert trusts(web(*words), TWO)
    assert not trusts(web(*words, withdraw(ONE.public, [ALL], 2, PITO)), TWO)


def test_a_word_that_was_altered_is_not_heard():
    word = vouch(ONE.public, [ALL], 10, PITO)
    with pytest.raises(InvalidSignature):
        web(word[:-1] + bytes([word[-1] ^ 1]))
    assert not web(word).learn(word)


def test_vouches_that_have_run_out_are_forgotten():
    made = web(vouch(ONE.public, [ALL], 10, PITO), vouch(TWO.public, [ALL], 20, PITO))
    made.forget(15)
    assert len(made.words) == 1


def test_an_owner_is_within_reach_while_its_heartbeats_are_fresh_by_its_own_time():
    made = Web()
    assert made.reachable(OWNER, 0.0), "one that never sends any"
    assert made.hear(OWNER, beat(100.0, PITO), 100.0)
    assert made.reachable(OWNER, 100.0 + BEAT_LIMIT)
    assert not made.reachable(OWNER, 100.1 + BEAT_LIMIT)
    assert not made.hear(OWNER, beat(100.0, PITO), 106.0), (
        "the same again, handed on late, is no sign of life"
    )
    assert not made.reachable(OWNER, 106.0)
    assert made.hear(OWNER, beat(106.0, PITO), 107.0)
    assert made.reachable(OWNER, 107.0)


def test_a_clock_that_is_set_back_keeps_no_owner_within_reach():
    made = web()
    assert made.hear(OWNER, beat(1000.0, PITO), 1000.0)
    assert made.reachable(OWNER, 1000.0 - BEAT_LIMIT), "clocks are put right by little"
    assert not made.reachable(OWNER, 999.0 - BEAT_LIMIT)
    assert not made.reachable(OWNER, 10.0)


def test_an_owner_that_promised_heartbeats_is_out_of_reach_until_it_is_heard():
    made = web(vouch(ONE.public, [ALL], 1000, PITO, made=1, heartbeats=True))
    assert not made.reachable(OWNER, 100.0)
    assert made.hear(OWNER, beat(100.0, PITO), 100.0)
    assert made.reachable(OWNER, 100.0)


def test_nobody_promises_heartbeats_for_somebody_else():
    words = vouch(ONE.public, [ALL], 1000, PITO), vouch(TWO.public, [ALL], 1000, ONE, heartbeats=True)
    assert web(*words).reachable(OWNER, 100.0)


def test_a_promise_of_heartbeats_ends_when_the_owner_takes_it_back_or_vouches_without_it():
    promise = vouch(ONE.public, [ALL], 1000, PITO, made=1, heartbeats=True)
    assert web(promise, withdraw(ONE.public, [ALL], 2, PITO)).reachable(OWNER, 100.0)
    assert web(promise, vouch(ONE.public, [ALL], 1000, PITO, made=2)).reachable(OWNER, 100.0)
    elsewhere = withdraw(TWO.public, [ALL], 2, PITO), vouch(TWO.public, [ALL], 1000, PITO, made=3)
    assert not web(promise, *elsewhere).reachable(OWNER, 100.0)


def test_a_promise_that_a_broker_was_started_with_outlasts_the_vouch():
    made = web()
    made.pin(vouch(ONE.public, [ALL], 10, PITO, made=1, heartbeats=True))
    made.forget(20.0)
    assert not trusts(made, ONE, now=20.0)
    assert not made.reachable(OWNER, 20.0)
    made.learn(withdraw(ONE.public, [ALL], 30, PITO))
    assert made.reachable(OWNER, 40.0)


def test_a_heartbeat_of_somebody_else_or_from_the_future_does_not_count():
    made = Web()
    with pytest.raises(InvalidSignature):
        made.hear(OWNER, beat(5.0, THIEF), 5.0)
    assert not made.hear(OWNER, beat(5.0 + 2 * BEAT_LIMIT, PITO), 5.0)

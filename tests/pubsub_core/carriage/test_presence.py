"""Who is there and who is trusted: what brokers say of themselves and of each other, in signed records."""

from __future__ import annotations

from time import time
from uuid import uuid4

import pytest

from authz import Identity
from bus.wire import subjects
from pubsub_core.carriage.presence import FEW, MAX_NAMES, MAX_STRANGERS, MISSED_HELLOS, MOST_HELLO_SECONDS
from pubsub_core.carriage.records import HELLO, HELLO_SECONDS, Hello, word_record
from pubsub_core.trust.broker_trust import BEAT_LIMIT, beat
from pubsub_core.trust.vouches import ALL, vouch, withdraw
from pubsub_core.types.event_type import EventType
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.kinds import MET, PITO
from tests.pubsub_core.net import KIND, SIGNED, Net, net


def hello(made: Net, name: str, key: Identity, **more) -> None:
    """Somebody says that it is there, as `a` hears it."""
    said = Hello(name, "met", made._clock(), 1, **more)
    subject = subjects.broker_record("met", "x", "hello.x")
    made.brokers["a"].presence.hear(subject, HELLO.sign(said, key))


def test_brokers_that_are_vouched_for_know_trust_and_serve_each_other_at_once():
    made = net("a", "b")
    assert made.trusts("a") == {"b"}
    assert made.trusts("b") == {"a"}
    made.subscribe("b")
    made.pass_()
    assert made.interested("a")
    made.unsubscribe("b")
    made.pass_()
    assert not made.interested("a")


def test_a_broker_that_starts_later_knows_what_was_said_before():
    made = net("a")
    made.brokers["a"].presence.say_word(withdraw(MET.public, [ALL], made.now, PITO))
    made.pass_(600.0)
    made.add("b")
    assert made.knows("b") == {"a"}
    assert made.webs["b"].words.version == made.webs["a"].words.version + 1  # that of its own vouch
    made.away = {"a"}
    made.pass_(MISSED_HELLOS * HELLO_SECONDS + 1, "b")
    made.add("c")
    assert "a" in made.brokers["c"].presence.met, "its past is waited for, and named"


def test_a_broker_that_is_not_heard_is_gone_and_one_that_leaves_is_gone_at_once():
    made = net("a", "b", "c")
    made.subscribe("b")
    made.pass_()
    made.away = {"b"}
    for _ in range(int(MISSED_HELLOS * HELLO_SECONDS) + 2):
        made.pass_(1.0, "a", "c")
    assert made.knows("a") == {"c"}
    assert not made.interested("a")
    made.brokers["c"].presence.leave()
    assert made.knows("a") == set()


def test_signs_of_life_are_given_seldom_and_at_once_when_there_is_news():
    made = net("a", "b")
    made.pass_()
    made.log.clear()
    for _ in range(40):
        made.pass_(1.0, "a")
    said = [subject for sender, subject, _ in made.log if sender == "a" and ".hello." in subject]
    assert len(said) <= 40 / HELLO_SECONDS + 1
    made.subscribe("b")
    assert made.interested("a"), "without waiting for the next turn"


def test_among_many_signs_of_life_are_given_less_often_and_waited_for_longer():
    names = [f"b{number}" for number in range(4 * FEW)]
    made = net(*names)
    made.pass_(MOST_HELLO_SECONDS)
    made.log.clear()
    for _ in range(60):
        made.pass_()
    said = [subject for sender, subject, _ in made.log if sender == "b0" and ".hello." in subject]
    assert 1 <= len(said) <= 60 / MOST_HELLO_SECONDS + 1
    assert made.knows("b0") == {*names} - {"b0"}, "nobody is given up meanwhile"
    made.away = {"b1"}
    for _ in range(int(MISSED_HELLOS * MOST_HELLO_SECONDS) + 2):
        made.pass_(1.0, *(name for name in names if name != "b1"))
    assert made.knows("b0") == {*names} - {"b0", "b1"}


def test_a_broker_that_the_owner_does_not_trust_is_believed_nothing():
    made = net("a")
    made.add("b", by=None)
    made.subscribe("b")
    made.pass_()
    assert made.knows("a") == {"b"}
    assert made.trusts("a") == set()
    assert not made.interested("a")
    made.subscribe("a")
    made.publish("b", 1.0)
    assert not made.stream, "what nobody would take is not published"
    assert not made.seen("a")


def test_who_is_distrusted_is_left_out_at_once_and_by_those_who_start_later():
    made = net("a", "b")
    made.subscribe("b")
    made.pass_()
    word = withdraw(made.brokers["b"].setting.identity.public, [ALL], made.now, PITO)
    what, data = word_record(word)
    subject = subjects.broker_record("met", "cli", what)
    made.kept[subject] = data
    for each in made.brokers.values():
        each.presence.hear(subject, data)
    assert made.trusts("a") == set()
    made.add("c")
    assert made.trusts("c") == {"a"}
    made.subscribe("a")
    made.subscribe("c")
    made.brokers["b"].sending._carries = lambda type_: True  # it publishes all the same
    made.publish("b", 1.0)
    assert len(made.stream) == 1
    assert not made.seen("a")
    assert not made.seen("c")


def test_what_was_signed_by_nobody_or_said_before_counts_for_nothing():
    made = net("a", "b")
    subject, old = next((to, data) for sender, to, data in made.log if sender == "b" and ".hello." in to)
    made.brokers["b"].presence.leave()
    made.brokers["a"].presence.hear(subject, old)
    assert made.knows("a") == set()
    made.brokers["a"].presence.hear(subject, old[:-1] + b"x")
    assert made.brokers["a"].counts.forged == 1


def test_a_flood_of_names_fills_no_memory_and_keeps_out_nobody_who_is_trusted():
    made = net("a")
    for number in range(3 * MAX_STRANGERS):
        hello(made, f"stranger-{number}", Identity.generate())
    assert len(made.knows("a")) <= MAX_STRANGERS
    made.add("b")
    assert "b" in made.trusts("a")


def test_one_key_is_a_broker_under_so_many_names_only():
    made, key = net("a"), Identity.generate()
    for number in range(3 * MAX_NAMES):
        hello(made, f"name-{number}", key)
    assert len(made.knows("a")) == MAX_NAMES


def test_who_has_taken_a_name_first_is_not_in_the_way_of_whoever_is_trusted():
    made = net("a")
    made.subscribe("a")
    hello(made, "b", Identity.generate())
    made.add("b")
    assert made.trusts("a") == {"b"}
    thief = Identity.generate()
    hello(made, "b", thief)
    assert made.brokers["a"].presence.peers["b"].key != str(thief.public)


def test_heartbeats_reach_all_and_an_owner_that_falls_silent_is_out_of_reach():
    made = Net()
    made.add("a", owners=(PITO,))
    made.add("b")
    made.pass_()
    assert made.brokers["b"].presence.within_reach(KIND.id)
    made.pass_(BEAT_LIMIT + 1, "b")
    assert not made.brokers["b"].presence.within_reach(KIND.id)
    made.pass_(1.0, "a")
    assert made.brokers["b"].presence.within_reach(KIND.id)
    made.away = {"a"}
    made.add("c")
    assert not made.brokers["c"].presence.within_reach(KIND.id), "one that was kept may be old"


def test_heartbeats_are_remembered_of_owners_of_types_only():
    made = net("a")
    subject = subjects.broker_record("met", "x", "beat.x")
    made.brokers["a"].presence.hear(subject, beat(made.now, Identity.generate()))
    assert not made.webs["a"].heard
    made.brokers["a"].presence.hear(subject, beat(made.now, PITO))
    assert made.webs["a"].heard == {str(PITO.public)}


def test_definitions_reach_the_brokers_of_other_domains_from_those_trusted_with_them():
    made = Net()
    made.add("a")
    made.add("b", domain="ccs", types=())
    made.pass_()
    assert made.brokers["b"].setting.catalogue.knows(KIND.id)
    stranger = Net()
    stranger.add("a", by=None)
    stranger.add("b", domain="ccs", types=())
    stranger.pass_()
    assert not stranger.brokers["b"].setting.catalogue.knows(KIND.id)


def test_a_type_that_one_broker_has_sealed_leaves_no_other_in_clear():
    made = net("a", "b")
    made.brokers["b"].setting.vault.mark_sealed([KIND.id])
    made.brokers["b"].presence.say_hello()
    assert KIND.id in made.brokers["a"].setting.vault.sealed


@pytest.mark.parametrize("trusted", [True, False])
def test_a_stranger_has_no_type_sealed(trusted):
    made, key = net("a"), Identity.generate()
    if trusted:
        made.webs["a"].learn(vouch(key.public, [ALL], made.now + 100, PITO))
    hello(made, "b", key, seals=(KIND.id,))
    assert (KIND.id in made.brokers["a"].setting.vault.sealed) is trusted


def test_a_type_of_an_owner_that_is_not_known_is_within_nobodys_reach():
    made = Net()
    other = EventType.new("other.Kind", MET.public, [("x", "string")], uuid4)
    made.add("a", types=(SIGNED, SignedType.sign(other, MET, at=time())))
    assert made.brokers["a"].presence.trusts(str(MET.public), other.id)
    assert not made.brokers["a"].presence.trusts(str(PITO.public), "unknown")
    assert not made.brokers["a"].presence.within_reach("unknown")

"""Brokers among themselves, without a network: who is there, who wants what, whom to trust, and when to be silent."""

from __future__ import annotations

from functools import reduce
from math import nan

import pytest

from authz import Identity
from authz.predicate import TRUE, Cidr, Equal, Not, Order, Path, Regex
from bus.envelope import pack
from pubsub_core.clocks import MAX_SKEW
from pubsub_core.enforcement import Enforcement
from pubsub_core.keys.plan import Plan
from pubsub_core.line import Kind, Numbered, Outgoing
from pubsub_core.links import HELLO, MAX_NAMES, MAX_STRANGERS, PEER_TTL
from pubsub_core.messages import Hello, Parcel, unpack_numbered
from pubsub_core.proof import Proof
from pubsub_core.restriction import UNRESTRICTED
from pubsub_core.switchboard import Subscription
from pubsub_core.trust import BEAT_LIMIT, beat
from tests.pubsub_core.kinds import NOW, PITO, THIEF
from tests.pubsub_core.net import KIND, SPEED, Net, net

ABOUT_SPEED = Path("event", (SPEED,))


def test_what_is_wanted_at_one_broker_is_known_at_all_others_at_once():
    made = net("a", "b", "c")
    subscription = made.want("c")
    assert made.serves("a") == made.serves("b") == {"c"}
    made.brokers["c"].switchboard.disconnect(subscription)
    made.links["c"].notes.announce()
    assert made.serves("a") == set()


def test_a_broker_that_comes_later_learns_and_is_learned_of():
    made = net("a")
    made.want("a")
    made.add("late", types=())
    made.pass_(1.0, "late")
    assert made.serves("late") == {"a"}
    assert KIND.version in made.brokers["late"].setting.catalogue


def test_a_note_that_got_lost_is_asked_for_with_the_next_hello():
    made = net("a", "b")
    made.cut = {("b", "a")}
    made.want("b")
    assert made.serves("a") == set()
    made.cut.clear()
    made.pass_()
    assert made.serves("a") == {"b"}


def test_a_silent_broker_is_forgotten_and_one_that_leaves_at_once():
    made = net("a", "b")
    made.want("b")
    made.cut = {("b", "a")}
    made.pass_(PEER_TTL + 0.1)
    assert made.brokers["a"].peers == {}
    made.cut.clear()
    made.pass_()
    assert made.serves("a") == {"b"}
    made.now += 0.5
    made.links["b"].leave()
    assert made.serves("a") == set()


def test_a_broker_that_the_owner_does_not_trust_is_sent_nothing_and_believed_nothing():
    made = net("a")
    made.add("stranger", by=None)
    made.add("pretender", by=THIEF)
    made.pass_()
    for name in ("stranger", "pretender"):
        made.want(name)
    assert made.serves("a") == set()
    assert [peer.carries for peer in made.brokers["a"].peers.values()] == [set(), set()]


@pytest.mark.parametrize(
    "filter_",
    [
        Regex(ABOUT_SPEED, "("),
        Regex(ABOUT_SPEED, r"\w{100}"),
        Order(ABOUT_SPEED, "<", nan),
        Cidr(ABOUT_SPEED, "nowhere"),
        Equal(Path("subject", ("role",)), "chief"),
        Equal(Path(ABOUT_SPEED.root, ()), 1.0),
        reduce(lambda inner, _: Not(inner), range(400), Equal(ABOUT_SPEED, 1.0)),
    ],
    ids=["no regex", "costly", "no number", "no network", "not about events", "about nothing", "too deep"],
)
def test_a_broker_that_wants_what_cannot_be_meant_is_in_nobodys_way(filter_):
    made = net("a", "b", "evil")
    made.subscribe("a")
    made.subscribe("b")
    wants = made.brokers["evil"].switchboard
    made.subscribe("evil", "speed > 3")
    wants._wants[KIND.id] = (filter_, *wants.wants()[KIND.id])
    wants.version += 1
    made.links["evil"].notes.announce()
    made.pass_()
    assert [made.brokers[name].counts.forged for name in ("a", "b")] == [1, 1]
    made.publish("a", 5.0)
    assert made.seen("a") == made.seen("b") == made.seen("evil") == {(1, 5.0): 1}


def test_a_regular_expression_stays_at_the_broker_of_whoever_filters_by_it():
    made = net("a", "b")
    made.subscribe("b", "numberplate MATCHES '^A' AND speed > 3")
    made.subscribe("b", "numberplate MATCHES '^B'")
    assert made.brokers["a"].peers["b"].wants == {KIND.id: (TRUE,)}
    made.publish("a", 5.0)
    assert made.brokers["b"].counts.received == 1
    assert made.seen("b") == {}


def test_trust_that_runs_out_ends_what_is_served():
    made = net("a", "b")
    made.want("b")
    assert made.serves("a") == {"b"}
    made.now += 1001
    made.pass_()
    assert made.serves("a") == set()


def test_nobody_takes_another_brokers_name_and_no_old_hello_counts():
    made = net("a", "b")
    made.want("b")
    fake = Hello("b", "met", made.now + 1, 5)
    made.links["a"].hear_hello(HELLO.sign(fake, THIEF))
    assert made.serves("a") == {"b"}
    assert made.brokers["a"].counts.untrusted == 1
    hello = next(data for sender, subject, data in made.log if sender == "b" and subject.endswith("hello"))
    made.now += MAX_SKEW + 1
    made.links["a"].tick()
    made.links["a"].hear_hello(hello)
    assert made.brokers["a"].peers == {}


def test_strangers_that_say_hello_are_forgotten_and_what_they_said_does_not_count_again():
    made = net("a")
    said = [HELLO.sign(Hello(f"x{n}", "met", made.now, 5), Identity.generate()) for n in range(5)]
    for hello in said:
        made.links["a"].hear_hello(hello)
    made.pass_(MAX_SKEW + 1)
    assert made.links["a"]._told == {}
    for hello in said:
        made.links["a"].hear_hello(hello)
    assert made.brokers["a"].peers == {}


def test_a_flood_of_names_fills_no_memory_and_keeps_out_nobody_who_is_trusted():
    made = net("a", "b")
    made.want("b")
    made.add("unknown", by=None)
    made.pass_()
    for number in range(3 * MAX_STRANGERS):
        leaving = number % 2 == 0
        hello = Hello(f"x{number}", "met", made.now, 5, leaving=leaving)
        made.links["a"].hear_hello(HELLO.sign(hello, Identity.generate()))
    known = made.brokers["a"].peers
    assert {"b", "unknown"} <= known.keys(), "whoever was there before stays"
    assert len(made.links["a"]._told) == MAX_STRANGERS + 1
    assert len(known) <= MAX_STRANGERS + 1
    made.add("c")
    made.pass_(0.1)
    made.want("c")
    assert made.serves("a") == {"b", "c"}
    assert len(known) <= MAX_STRANGERS + 2


def test_one_key_is_a_broker_under_so_many_names_only():
    made = net("a")
    identity = made.add("b").setting.identity
    for number in range(2 * MAX_NAMES):
        hello = Hello(f"x{number}", "met", made.now + number / 100, 5, vouches=tuple(made.webs["b"].words))
        made.links["a"].hear_hello(HELLO.sign(hello, identity))
    assert len(made.brokers["a"].peers) == MAX_NAMES


def test_heartbeats_are_remembered_of_owners_of_types_only():
    made = net("a")
    beats = {str(each.public): beat(made.now, each) for each in (PITO, THIEF)}
    made.links["a"].hear_hello(HELLO.sign(Hello("x", "met", made.now, 5, beats=beats), Identity.generate()))
    assert made.webs["a"].beats(9) == {str(PITO.public): beats[str(PITO.public)]}


def test_who_has_taken_a_name_first_is_not_in_the_way_of_whoever_is_trusted():
    made = net("a")
    made.publish("a", 1.0)
    squatter = Identity.generate()
    hello = lambda: made.links["a"].hear_hello(HELLO.sign(Hello("b", "met", made.now, 5), squatter))  # noqa: E731
    hello()
    assert made.brokers["a"].peers["b"].key == str(squatter.public)
    made.add("b")
    made.pass_()
    made.subscribe("b")
    for _ in range(3):
        hello()
        made.pass_()
    made.publish("a", 5.0)
    assert made.seen("b") == {(1, 5.0): 1}


def test_heartbeats_are_handed_on_around_a_line_that_is_cut():
    made = Net()
    made.add("owner", owners=(PITO,))
    made.add("middle")
    made.add("far")
    made.pass_()
    made.cut = {("owner", "far"), ("far", "owner")}
    for _ in range(10):
        made.pass_(1.0)
    assert made.brokers["far"].within_reach(KIND.id)


def test_without_heartbeats_the_owners_types_fall_silent_until_they_are_heard_again():
    made = Net()
    made.add("owner", owners=(PITO,))
    made.add("far")
    made.pass_()
    made.cut = {("owner", "far")}
    for _ in range(int(BEAT_LIMIT) + 1):
        made.pass_()
    assert not made.brokers["far"].within_reach(KIND.id)
    assert made.brokers["owner"].within_reach(KIND.id)
    made.cut.clear()
    made.pass_()
    assert made.brokers["far"].within_reach(KIND.id)


def test_what_brokers_tell_each_other_holds_no_names():
    made = net("a", "b")
    attribute = Path("event", (KIND.attributes[0].id,))
    subscription = Subscription("s", 1, KIND.id, "")
    enforced = Enforcement(UNRESTRICTED)
    made.brokers["b"].switchboard.connect(subscription, {KIND.id: (enforced, Equal(attribute, "X"))})
    made.log.clear()
    made.links["b"].notes.announce()
    ((_, _, data),) = made.log
    assert KIND.name.encode() not in data
    assert KIND.attributes[0].name.encode() not in data


def parcel(number: int) -> Parcel:
    return Parcel("a", Proof(bytes([number]), NOW, b""), [])


def test_parcels_that_got_lost_are_sent_again_and_all_are_taken_in_order(monkeypatch):
    made = net("a", "b")
    made.pass_()
    sender, receiver = made.brokers["a"], made.brokers["b"]
    taken: list[int] = []
    monkeypatch.setattr(
        receiver, "receive", lambda each, trusted=False: taken.append(each.proof.credential[0])
    )
    for number in range(8):
        made.cut = {("a", "b")} if number in (1, 2, 7) else set()
        sender.forwarding.send_parcel(sender.peers["b"], "", parcel(number))
    assert taken == list(range(7)), "what came after a gap waited for what was missing"
    made.cut = set()
    made.pass_()
    assert taken == list(range(8)), "the last one is missed when the sender next says how many there were"


def test_nobody_else_can_speak_on_the_line_between_two_brokers(monkeypatch):
    made = net("a", "b")
    made.pass_()
    receiver = made.brokers["b"]
    monkeypatch.setattr(receiver, "receive", lambda each, trusted=False: pytest.fail("it was believed"))
    forged = Outgoing().add("a", made.brokers["a"].forwarding.boot, pack(parcel(1)))
    for secret in (b"guess", made.brokers["a"].peers["b"].secret[::-1]):
        receiver.hear(forged.tagged(secret))
    receiver.hear(forged)
    assert receiver.counts.untrusted == 3


def boxes(made: Net) -> list[Numbered]:
    sent = [unpack_numbered(data) for _, subject, data in made.log if subject.endswith(".events")]
    assert all(each.kind is Kind.BOX for each in sent)
    return sent


def test_at_a_steady_pace_one_box_goes_out_at_each_tick_whatever_there_is_to_say(monkeypatch):
    made = net("a", "b")
    sender, taken = made.brokers["a"].forwarding, []
    monkeypatch.setattr(made.brokers["b"], "receive", lambda each, trusted=False: taken.append(each))
    made.want("b")
    made.brokers["a"].setting.vault.learn(KIND.id, Plan(Plan.each([KIND.attributes[0].id]).groups, pace=2.0))
    peer, sizes = made.brokers["a"].peers["b"], set()
    for said in (0, 3, 0, 1, 0):
        made.log.clear()
        for number in range(said):
            sender._send(peer, KIND.id, pack(parcel(number)))
        assert not boxes(made)
        assert sender.tick(made.now) > made.now
        sizes |= {len(each.data) for each in boxes(made)}
        assert len(boxes(made)) == 1
        sender.tick(made.now + 0.1)
        assert len(boxes(made)) == 1
        made.now += 2.0
    assert len(sizes) == 1
    assert len(taken) == 4


def test_while_a_broker_is_held_its_boxes_are_empty_and_nothing_is_lost(monkeypatch):
    made = net("a", "b")
    sender, taken = made.brokers["a"].forwarding, []
    monkeypatch.setattr(made.brokers["b"], "receive", lambda each, trusted=False: taken.append(each))
    made.want("b")
    made.brokers["a"].setting.vault.learn(KIND.id, Plan(Plan.each([KIND.attributes[0].id]).groups, pace=2.0))
    sender._send(made.brokers["a"].peers["b"], KIND.id, pack(parcel(1)))
    sender.tick(made.now, held=True)
    assert len(boxes(made)) == 1
    assert not taken
    sender.tick(made.now + 2.0)
    assert len(taken) == 1


def test_what_waits_is_sent_when_the_pace_is_given_up(monkeypatch):
    made = net("a", "b")
    sender, taken = made.brokers["a"].forwarding, []
    monkeypatch.setattr(made.brokers["b"], "receive", lambda each, *_, **__: taken.append(each))
    made.want("b")
    groups = Plan.each([KIND.attributes[0].id]).groups
    made.brokers["a"].setting.vault.learn(KIND.id, Plan(groups, pace=2.0))
    sender._send(made.brokers["a"].peers["b"], KIND.id, pack(parcel(1)))
    made.brokers["a"].setting.vault.learn(KIND.id, Plan(groups))
    sender.tick(made.now)
    assert len(taken) == 1
    made.log.clear()
    sender.tick(made.now)
    assert not boxes(made)

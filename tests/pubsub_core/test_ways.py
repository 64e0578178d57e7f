"""Ways through other brokers: every subscriber gets what it would from the publisher's own broker, once."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from bus.envelope import pack
from pubsub_core.line import Outgoing
from pubsub_core.links import PEER_TTL
from pubsub_core.messages import Carried
from pubsub_core.trust import ALL, withdraw
from tests.pubsub_core.kinds import PITO
from tests.pubsub_core.net import KIND, Net

SPEEDS = (10.0, 20.0, 30.0, 40.0)
FILTERS = ("", "speed > 15", "speed > 25 AND speed < 35", "speed < 15 OR speed = 40")


def passes(filter_: str, speed: float) -> bool:
    """What the filters above mean, said otherwise."""
    return {
        FILTERS[0]: True,
        FILTERS[1]: speed > 15,
        FILTERS[2]: 25 < speed < 35,
        FILTERS[3]: speed < 15 or speed == 40,
    }[filter_]


def lined(*lines: str, untrusted: str = "") -> Net:
    """Brokers named by letters, with lines between those that stand together, such as `ab`."""
    made, names = Net(), sorted(set("".join(lines)))
    for name in names:
        made.add(name, by=None if name in untrusted else PITO)
    together = {frozenset(line) for line in lines}
    made.cut = {(a, b) for a in names for b in names if a != b and frozenset((a, b)) not in together}
    settle(made)
    return made


def settle(made: Net) -> None:
    """Let everybody hear of everybody."""
    for _ in range(len(made.links) + 2):
        made.pass_(0.5)


def test_an_event_goes_through_brokers_between_to_one_that_is_not_heard():
    made = lined("ab", "bc", "cd")
    made.subscribe("d", "speed > 15")
    made.publish("a", 10.0, 20.0)
    assert made.seen("d") == {(1, 20.0): 1}
    assert [made.brokers[name].counts.carried > 0 for name in "abcd"] == [False, True, True, False]
    assert made.brokers["a"].counts.forwarded == 1, "what nobody wants does not leave its broker"


def test_where_there_is_a_line_nobody_else_is_troubled():
    made = lined("ab", "bc", "ac")
    made.subscribe("c")
    made.publish("a", 10.0)
    assert made.seen("c") == {(1, 10.0): 1}
    assert made.brokers["b"].counts.carried == 0


def test_a_broker_that_is_given_neighbours_goes_through_them_though_it_hears_all():
    made = Net()
    made.add("hub", neighbours=("left", "right"))
    made.add("left", neighbours=("hub",))
    made.add("right", neighbours=("hub",))
    settle(made)
    made.subscribe("right")
    carried = made.brokers["hub"].counts.carried
    made.publish("left", 10.0)
    assert made.seen("right") == {(1, 10.0): 1}
    assert made.brokers["hub"].counts.carried == carried + 1


def test_events_go_around_a_broker_that_is_not_trusted_with_them():
    made = lined("ab", "bd", "ac", "ce", "ed", untrusted="b")
    made.subscribe("d")
    before = made.brokers["b"].counts.carried
    made.publish("a", 10.0)
    assert made.seen("d") == {(1, 10.0): 1}
    assert made.brokers["b"].counts.carried == before


def test_a_broker_that_is_no_longer_trusted_is_left_out_as_soon_as_the_owner_says_so():
    made = lined("ab", "bd", "ac", "ce", "ed")
    made.subscribe("d")
    made.publish("a", 10.0)
    before = made.brokers["b"].counts.carried
    assert before > 0
    untrusted = made.brokers["b"].setting.identity.public
    made.links["e"].hear_vouch(withdraw(untrusted, [ALL], made.now, PITO))
    settle(made)
    carried = made.brokers["b"].counts.carried
    made.publish("a", 20.0)
    assert made.seen("d") == {(1, 10.0): 1, (1, 20.0): 1}
    assert made.brokers["b"].counts.carried == carried
    made.subscribe("b")
    assert "b" not in made.serves("a"), "and it gets nothing for clients of its own"


def test_without_a_trusted_way_nothing_is_sent_and_publishers_know():
    made = lined("ab", "bc", untrusted="b")
    made.subscribe("c")
    made.publish("a", 10.0)
    assert made.seen("c") == Counter()
    assert made.brokers["a"].counts.forwarded == 0
    assert not made.brokers["a"].switchboard.wanted(KIND.id)


def test_what_is_published_while_there_is_no_way_comes_when_there_is_one_again():
    made = lined("ab", "bc")
    made.subscribe("c")
    lost = {("a", "b"), ("b", "a")}
    made.cut |= lost
    for _ in range(3):
        made.pass_(1.0)
    made.publish("a", 10.0)
    made.cut -= lost
    for _ in range(3):
        made.pass_(1.0)
    assert made.seen("c") == {(1, 10.0): 1}


def test_what_was_on_its_way_through_a_broker_that_fell_silent_comes_on_another_once():
    made = lined("ab", "bd", "ac", "cd")
    made.subscribe("d")
    made.publish("a", 10.0)
    made.isolate("b")
    made.publish("a", 20.0, 30.0)
    assert made.seen("d") == {(1, 10.0): 1}
    made.pass_(1.0)
    made.publish("a", 40.0)
    for _ in range(int(PEER_TTL) + 2):
        made.pass_(1.0)
    assert made.seen("d") == {(1, speed): 1 for speed in SPEEDS}
    assert "b" not in made.brokers["a"].peers


@pytest.mark.parametrize("cut", [{("a", "c")}, {("a", "c"), ("c", "a")}])
def test_what_is_lost_on_a_line_that_breaks_comes_on_another_way(cut):
    """Also if it breaks in one direction only: then it is used in neither."""
    made = lined("ab", "bc", "ac")
    made.subscribe("c")
    made.publish("a", 10.0)
    made.cut |= cut
    for speed in SPEEDS[1:]:
        made.publish("a", speed)
        made.pass_(1.0)
    for _ in range(int(PEER_TTL) + 2):
        made.pass_(1.0)
    assert made.seen("c") == {(1, speed): 1 for speed in SPEEDS}
    assert made.brokers["b"].counts.carried > 0


def test_trust_that_ends_while_something_is_on_its_way_keeps_it_back_and_holds_up_nothing_else():
    made = lined("ab", "bc")
    made.subscribe("c")
    made.cut |= {("b", "c")}
    made.publish("a", 10.0)
    made.webs["a"].words.forget(made.now + 2000)
    made.cut -= {("b", "c")}
    made.pass_(1.0)
    made.pass_(1.0)
    assert made.seen("c") == Counter()
    assert not made.brokers["c"].peers["a"].incoming.lacks(1), "its place was filled"


def test_who_carries_something_cannot_alter_it_nor_speak_for_others():
    made = lined("ab", "bc")
    made.subscribe("c")
    carry = made.brokers["b"].ways.carry

    def alter(carried: Carried) -> None:
        data = bytearray(carried.data)
        data[len(data) // 2] ^= carried.what == "events"
        carry(structs.replace(carried, data=bytes(data)))

    made.brokers["b"].ways.carry = alter
    made.publish("a", 10.0)
    forged = Outgoing().add("a", made.brokers["a"].forwarding.boot, b"", type_=KIND.id)
    carry(Carried(("c",), "events", pack(forged.tagged(made.brokers["b"].peers["c"].secret))))
    assert made.seen("c") == Counter()
    assert made.brokers["c"].counts.untrusted == 2
    made.brokers["b"].ways.carry = carry
    made.pass_(1.0)
    assert made.seen("c") == {(1, 10.0): 1}, "what was spoilt is sent again"


def test_what_is_for_nobody_here_goes_nowhere():
    made = lined("ab", "bc")
    links, counts = made.links["b"], made.brokers["b"].counts
    sent = len(made.log)
    for route in ((), ("c",), ("b", "nobody"), ("x", "b")):
        links.hear_carried(Carried(route, "hello", b""))
    assert counts.unroutable == 4
    assert len(made.log) == sent


@st.composite
def topologies(draw):
    """Brokers with lines that connect them all, some perhaps not trusted."""
    names = "abcdef"[: draw(st.integers(2, 6))]
    tree = [f"{names[draw(st.integers(0, place - 1))]}{names[place]}" for place in range(1, len(names))]
    more = draw(st.sets(st.sampled_from(["".join(pair) for pair in combinations(names, 2)]), max_size=4))
    untrusted = draw(st.sets(st.sampled_from(names), max_size=1))
    return names, {*tree, *more}, "".join(untrusted)


def together(names: str, lines: set[str], without: str) -> dict[str, set[str]]:
    """Those between whom there is a way over lines, without some of them."""
    groups = {name: {name} for name in names if name not in without}
    for _ in names:
        for a, b in lines:
            if a in groups and b in groups:
                joined = groups[a] | groups[b]
                for each in joined:
                    groups[each] = joined
    return groups


@settings(max_examples=20, deadline=None)
@given(
    topologies(),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(FILTERS)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(SPEEDS)), min_size=1, max_size=6),
    st.integers(0, 5),
)
def test_over_any_lines_each_subscriber_gets_what_it_would_at_the_publishers_own_broker_once(
    topology, wants, stories, silent
):
    """With one broker not trusted, or one falling silent while events are on their way."""
    names, lines, untrusted = topology
    made = lined(*lines, untrusted=untrusted)
    subscriptions = [(names[at % len(names)], filter_) for at, filter_ in wants]
    for name, filter_ in subscriptions:
        made.subscribe(name, filter_)
    published = [(names[at % len(names)], speed) for at, speed in stories]
    gone = names[silent % len(names)]
    for number, (name, speed) in enumerate(published):
        if number == len(published) // 2:
            made.isolate(gone)
        made.publish(name, speed)
    for _ in range(int(PEER_TTL) + len(names) + 2):
        made.pass_(1.0)
    lasting = together(names, lines, untrusted + gone)
    numbers: Counter[str] = Counter()
    for name, filter_ in subscriptions:
        numbers[name] += 1
        seen = Counter({key: n for key, n in made.seen(name).items() if key[0] == numbers[name]})
        due = Counter(speed for at, speed in published if at == name and passes(filter_, speed))
        if name in lasting:
            due += Counter(
                speed
                for at, speed in published
                if at != name and at in lasting[name] and passes(filter_, speed)
            )
        for speed, times in due.items():
            assert seen[numbers[name], speed] >= times, "nothing is lost where there is a way"
        possible = Counter(speed for at, speed in published if passes(filter_, speed))
        assert all(times <= possible[speed] for (_, speed), times in seen.items()), "and nothing comes twice"

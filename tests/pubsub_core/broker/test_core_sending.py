"""What clients are sent: as policies allow when it is sent, again after a loss, and never while the broker is held."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.predicate import Equal, Order
from pubsub_core.access.enforcement import Enforcement
from pubsub_core.access.restriction import Restriction
from pubsub_core.delivery.dispatcher import MAX_POST_BYTES
from pubsub_core.events.gap import GapReason
from pubsub_core.rules.judge import Shown
from tests.pubsub_core.broker.test_core import CAR, FAST, ID, attribute
from tests.pubsub_core.pair import Pair


def test_what_rules_make_of_an_event_is_sent_however_much_it_is_but_for_one_too_large_for_any_message(
    pair, monkeypatch
):
    pair.subscribe(restriction=Restriction(visible=frozenset([ID["numberplate"]])))
    plates = ["A" * 60_000, "B" * MAX_POST_BYTES, *("C" * 60_000 for _ in range(20))]

    def show(self, event, *about):
        made = (msgspec.structs.replace(event, attributes={ID["numberplate"]: each}) for each in plates)
        return Shown(tuple(made), ())

    monkeypatch.setattr(Enforcement, "show", show)
    monkeypatch.setattr(Enforcement, "show_all", lambda self, events: None)
    pair.publish(pair.bundle(CAR))
    pair.carry()
    expected = [(1, {"numberplate": each}) for each in plates if len(each) < MAX_POST_BYTES]
    assert pair.seen() == expected
    assert [(each.reason, each.count) for each in pair.missed()] == [(GapReason.UNREADABLE, 1)]
    assert pair.away.sessions["sub"].send_window.last == len(plates)


def test_what_waits_for_a_slow_client_is_shown_as_policies_allow_when_it_is_sent(pair):
    subscription = pair.subscribe()
    send_window = pair.away.sessions["sub"].send_window
    send_window._window = 1
    pair.publish(pair.bundle(CAR, FAST, {**FAST, "numberplate": "B2"}))
    pair.carry()
    assert pair.seen() == [(1, CAR)]
    pair.grant(subscription, Restriction(frozenset({ID["speed"]}), {}, Equal(attribute("numberplate"), "B2")))
    send_window.acknowledge(1)
    pair.away.flush(pair.away.sessions["sub"])
    assert pair.seen() == [(1, CAR), (1, {"speed": 99.0})]


def test_what_a_client_lost_comes_again_without_what_it_may_no_longer_see(pair):
    subscription = pair.subscribe()
    pair.publish(pair.bundle(CAR, FAST))
    pair.carry()
    pair.sent.clear()
    pair.grant(subscription, Restriction(filter=Order(attribute("speed"), ">", 50)))
    pair.away.resend(pair.away.sessions["sub"], 0)
    assert pair.seen() == [(1, FAST)]


def test_while_a_broker_is_held_nothing_is_sent_again_either(pair):
    subscription = pair.subscribe()
    pair.publish(pair.bundle(CAR, FAST))
    pair.carry()
    pair.sent.clear()
    pair.away.hold()
    pair.away.resend(pair.away.sessions["sub"], 0)
    assert pair.seen() == []
    pair.grant(subscription, Restriction(filter=Order(attribute("speed"), ">", 50)))
    pair.away.release()
    assert pair.seen() == [(1, FAST)]


cars = st.builds(
    lambda plate, place, speed: {"numberplate": plate, "location": place, "speed": speed},
    st.sampled_from(["A1", "B2"]), st.sampled_from(["Soho", "Leeds"]), st.sampled_from([10.0, 50.0, 90.0]),
)  # fmt: skip
rules = st.builds(
    Restriction,
    st.none() | st.frozensets(st.sampled_from(sorted(ID.values()))),
    st.just({}),
    st.sampled_from(
        [Equal(attribute("numberplate"), "A1"), Order(attribute("speed"), ">", 20.0), Restriction().filter]
    ),
)
wishes = st.sampled_from(["", "speed > 40", "location = 'Soho'", "numberplate = 'A1' AND speed < 60"])


@settings(max_examples=25, deadline=None)
@given(claims=st.lists(st.tuples(wishes, rules), min_size=1, max_size=4), events=st.lists(cars, max_size=6))
def test_each_subscription_gets_exactly_what_its_filter_and_its_restriction_leave(claims, events):
    """Through both brokers."""
    pair = Pair(share=0.0)
    for wish, rule in claims:
        pair.subscribe(wish, rule)
    if events:
        pair.publish(pair.bundle(*events))
        pair.carry()
    for number, (wish, rule) in enumerate(claims, 1):
        alone = Pair(share=0.0)
        alone.subscribe(wish)
        if events:
            alone.publish(alone.bundle(*events))
            alone.carry()
        expected = [event for _, event in alone.seen() if allowed(event, rule)]
        shown = [
            {name: value for name, value in event.items() if rule.visible is None or ID[name] in rule.visible}
            for event in expected
        ]
        assert [event for n, event in pair.seen() if n == number] == shown


def allowed(event: dict[str, object], rule: Restriction) -> bool:
    test = rule.filter
    if isinstance(test, Equal):
        return event["numberplate"] == test.value
    return not isinstance(test, Order) or event["speed"] > test.value

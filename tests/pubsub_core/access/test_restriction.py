"""Restrictions: their class, their conjunction, and that nothing passes what they exclude."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authz.predicate import EVENT, FALSE, TRUE, And, Equal, Not, Or, Order, Regex, compile_predicate
from authz.spki import Capability, Right, parse_authority
from pubsub_core.access.enforcement import Enforcement
from pubsub_core.access.restriction import Check, Class, Metered, Option, Restriction, either, widened
from pubsub_core.events.event import Event
from tests.pubsub_core.filters import NUMBER, TEXT, events, filters
from tests.pubsub_core.kinds import MET, PITO

visible = st.none() | st.frozensets(st.sampled_from(["n", "m", "t", "g"]))
forced = st.dictionaries(st.sampled_from(["n", "t"]), st.integers(0, 2), max_size=2)
restrictions = st.builds(Restriction, visible, forced, filters)


def made(values: dict[str, object]) -> Event:
    return Event("T", "V", b"k", 0.0, 1, values)


@given(predicate=filters, event=events)
def test_what_is_pushed_lets_through_whatever_the_whole_does(predicate, event):
    if compile_predicate(predicate, EVENT)(event):
        assert compile_predicate(widened(predicate), EVENT)(event)


def seen(restriction: Restriction, event: dict[str, object]) -> dict[str, object] | None:
    shown = Enforcement(restriction).show(made(event), 10, 0.0)
    return None if shown is None else shown.events[0].attributes


@given(restriction=restrictions, event=events)
def test_a_subscriber_sees_no_event_attribute_or_value_that_is_excluded(restriction, event):
    shown = seen(restriction, event)
    allowed = compile_predicate(restriction.filter, EVENT)(event)
    assert (shown is not None) is allowed
    if shown is not None:
        visible = event.keys() if restriction.visible is None else event.keys() & restriction.visible
        assert shown == {name: event[name] for name in visible}


@given(restriction=restrictions, event=events)
def test_a_publisher_sets_only_what_it_may_and_says_what_it_must(restriction, event):
    said = Enforcement(restriction).publish(made(event), 10, 0.0)
    if said is not None:
        assert compile_predicate(restriction.filter, EVENT)(said)
        assert {name: said[name] for name in restriction.forced} == restriction.forced
        free = said.keys() - restriction.forced.keys()
        assert restriction.visible is None or free <= restriction.visible


@given(one=restrictions, other=restrictions, event=events)
def test_two_restrictions_together_leave_what_each_leaves(one, other, event):
    both = seen(one & other, event)
    if both is not None:
        for each in (one, other):
            alone = seen(each, event)
            assert alone is not None
            assert both.items() <= alone.items()


def test_values_forced_in_conflict_leave_nothing():
    both = Restriction(forced={"n": 1}) & Restriction(forced={"n": 2})
    assert both.filter == FALSE


def test_the_class_follows_from_what_the_event_service_can_express():
    plain, pattern = Order(NUMBER, ">", 1), Regex(TEXT, "a+")
    assert Restriction().kind is Class.NONE
    assert Restriction(filter=plain).kind is Class.PUBSUB
    assert Restriction(filter=pattern).kind is Class.GENERIC
    assert Restriction(filter=And((plain, pattern))).kind is Class.HYBRID
    assert Restriction(checks=(Check("one-in"),)).kind is Class.GENERIC
    assert Restriction(filter=plain, checks=(Check("one-in"),)).kind is Class.HYBRID


def test_what_is_pushed_of_a_mixture_is_the_part_that_can_be():
    plain, other, pattern = Order(NUMBER, ">", 1), Equal(TEXT, "a"), Regex(TEXT, "a+")
    assert widened(And((plain, pattern))) == plain
    assert widened(Or((plain, pattern))) == TRUE
    assert widened(And((Or((plain, And((other, pattern)))), pattern))) == Or((plain, other))
    assert widened(Not(pattern)) == TRUE


def test_a_generic_predicate_that_fails_lets_nothing_through():
    def broken(parameters, occasion):
        raise RuntimeError

    enforcement = Enforcement(Restriction(checks=(Check("broken"),)), {"broken": broken})
    assert enforcement.show(made({}), 10, 0.0) is None


def test_generic_predicates_get_constants_and_attributes_of_the_event():
    rule = Restriction(checks=(Check("multiple-of", {"factor": 3}, {"value": "n"}),))
    enforcement = Enforcement(rule)
    assert [n for n in range(7) if enforcement.show(made({"n": n}), 10, 0.0) is not None] == [0, 3, 6]
    small = Enforcement(Restriction(checks=(Check("size-at-most", {"bytes": 5}),)))
    assert small.show(made({}), 6, 0.0) is None
    fresh = Enforcement(Restriction(checks=(Check("no-older-than", {"seconds": 5}),)))
    assert fresh.show(made({}), 6, 6.0) is None
    some = Enforcement(Restriction(checks=(Check("one-in", {"count": 4}),)))
    passed = [n for n in range(400) if some.show(Event("T", "V", b"k", 0.0, n, {}), 1, 0.0) is not None]
    assert 50 < len(passed) < 150


def test_what_either_grant_leaves_is_never_more_than_one_of_them_does():
    soho, leeds = (Restriction(frozenset({"a"}), filter=Equal(TEXT, each)) for each in ("Soho", "Leeds"))
    assert either([soho]) == either([soho, soho]) == soho
    assert either([soho, leeds]).filter == Or((soho.filter, leeds.filter))
    assert either([soho, Restriction(frozenset({"a"}))]) == Restriction(frozenset({"a"}))
    other = Restriction(frozenset({"a", "b"}), filter=leeds.filter)
    assert either([soho, other]) == soho, "it shows other attributes"


def test_hours_and_rates_bind_the_grant_they_stand_in_and_no_other():
    hours = parse_authority("type: x\naction: subscribe\nwhen: 08:00-18:00")
    metered = Metered(Capability(PITO.public, MET.public, False, hours), Right.SUBSCRIBE, "x")
    soho, leeds = Equal(TEXT, "Soho"), Equal(TEXT, "Leeds")
    by_day, always = Restriction(filter=soho, options=(Option(soho, metered),)), Restriction(filter=leeds)
    for grants in ([by_day, always], [always, by_day]):
        both = either(grants)
        assert set(both.options) == {Option(leeds), Option(soho, metered)}
        assert both.local, "the event service cannot tell the time"
        enforcement = Enforcement(both)
        for hour, seen in ((3, ["Leeds"]), (12, ["Soho", "Leeds"])):
            towns = [made({"t": town}) for town in ("Soho", "Leeds", "York")]
            shown = [each for each in towns if enforcement.show(each, 10, hour * 3600.0) is not None]
            assert [each.attributes["t"] for each in shown] == seen
    assert either([by_day, Restriction()]) == Restriction(), "what is always granted needs no hours"
    assert either([by_day]) == by_day
    wide = Restriction(frozenset({"t", "s"}), options=(Option(TRUE, metered),))
    narrow = Restriction(frozenset({"t"}), filter=leeds)
    for grants in ([wide, narrow], [narrow, wide]):
        assert either(grants) == narrow, "what is always granted goes before what is closed at times"
    assert either([wide, by_day]) == wide

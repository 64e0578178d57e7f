"""The matching index finds exactly what trying every filter would."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.predicate import EVENT, TRUE, And, Equal, Order, Path, compile_predicate
from authz.predicate.matching import Matcher
from tests.pubsub_core.filters import NUMBER, events, filters


def expected(kept, event):
    return sorted(item for item, predicate in kept.items() if compile_predicate(predicate, EVENT)(event))


@settings(max_examples=40)
@given(
    first=st.lists(filters, max_size=12),
    second=st.lists(filters, max_size=6),
    seen=st.lists(events, max_size=6),
    data=st.data(),
)
def test_an_event_is_matched_as_if_every_filter_had_been_tried(first, second, seen, data):
    matcher, kept = Matcher[int](), dict(enumerate(first))
    for item, predicate in kept.items():
        matcher.add(item, predicate)
    for item in data.draw(st.sets(st.sampled_from(sorted(kept)))) if kept else ():
        matcher.remove(item)
        del kept[item]
    for item, predicate in enumerate(second):  # some take the place of others, some are new
        matcher.add(item, predicate)
        kept[item] = predicate
    for event in seen:
        assert sorted(matcher.match(event)) == expected(kept, event)
    assert matcher.match_each(seen) == [matcher.match(event) for event in seen]


@settings(max_examples=25)
@given(filter_=filters, seen=st.lists(events, max_size=6))
def test_many_events_are_matched_with_one_filter_as_each_would_be(filter_, seen):
    matcher = Matcher[int]()
    matcher.add(1, filter_)
    matcher.add(2, filter_)
    assert matcher.match_each(seen) == [matcher.match(event) for event in seen]


def test_after_everything_is_removed_nothing_is_left_behind():
    matcher = Matcher[int]()
    between = And((Order(NUMBER, ">", 1), Order(NUMBER, "<", 9)))
    for item, predicate in enumerate([TRUE, Equal(NUMBER, 5), between, Order(NUMBER, ">", 1), between]):
        matcher.add(item, predicate)
    assert sorted(matcher.match({"n": 5})) == [0, 1, 2, 3, 4]
    for item in range(5):
        matcher.remove(item)
    assert len(matcher) == 0
    assert matcher.filters() == []
    assert matcher.match({"n": 5}) == []


def test_an_event_is_tried_against_few_of_many_filters():
    """Counted, not timed: of ten thousand filters on a plate or a narrow range, an event meets a handful."""
    plate, speed = Path("event", ("p",)), Path("event", ("s",))
    matcher = Matcher[int]()
    for n in range(5000):
        matcher.add(n, And((Equal(plate, f"P{n}"), Order(speed, ">", 10))))
        matcher.add(5000 + n, And((Order(speed, ">", n), Order(speed, "<=", n + 1.5))))
    event = {"p": "P77", "s": 300.25}
    assert sorted(matcher.match(event)) == [77, 5299, 5300]
    assert len(matcher._candidates(event)) <= 8

"""What a history finds, page by page, by any filter and any times, and whatever was altered in it shows."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from authz.predicate import (
    And,
    Equal,
    In,
    Not,
    Or,
    Order,
    compile_predicate,
)
from authz.predicate.compiler import EVENT
from pubsub_core.events.event import encode
from pubsub_core.history.at_rest import EventCipher
from pubsub_core.history.errors import HistoryDamaged
from pubsub_core.history.position import Span
from pubsub_core.history.retention import Keeping, Search
from pubsub_core.history.storage.reading import Clause, Counted, Counting, Reading
from pubsub_core.history.storage.store import HistoryStore
from pubsub_core.types.event_type import AttributeType
from tests.pubsub_core.history.databases import postgresql, url
from tests.pubsub_core.history.storage.test_store import (
    ALL_BLIND,
    ALL_CLEAR,
    AMOUNT,
    DOSE,
    DRUG,
    KINDS,
    TYPE,
    VAULT,
    add,
    event,
    everything,
    keep,
    path,
)

__all__ = ["postgresql", "url"]


def test_what_was_stored_is_passed_over_whatever_else_comes_with_it(url):
    with HistoryStore(url, VAULT) as history:
        keep(history)
        add(history, [event(number) for number in range(5)])
        assert add(history, [event(4), event(7), event(2), event(7), event(6)]) == 2
        assert {each.sequence for each in everything(history)} == {0, 1, 2, 3, 4, 6, 7}
        assert list(history.verify(TYPE)) == [7]


def test_a_page_ends_when_it_is_large_and_the_next_goes_on(url):
    with HistoryStore(url, VAULT) as history:
        keep(history, {})
        add(history, [event(number, who="x" * 60_000) for number in range(12)])
        first = history.read(Reading(TYPE))
        assert len(first.bodies) < 8
        assert [each.sequence for each in everything(history)] == list(range(12))


@pytest.mark.parametrize(
    "long",
    [
        Or(tuple(Order(path(AMOUNT), ">", 10 + number) for number in range(1_500))),
        Not(And(tuple(Not(Equal(path(AMOUNT), 11 + number)) for number in range(1_500)))),
        In(path(AMOUNT), tuple(range(11, 70_000))),
    ],
)
def test_a_filter_of_more_comparisons_than_a_database_takes_finds_what_it_should(url, long):
    events = [event(number, amount=number) for number in range(20)]
    with HistoryStore(url, VAULT) as store:
        store.keep(Keeping(TYPE, KINDS, ALL_CLEAR))
        store.append([(each, encode(each)) for each in events])
        assert store.read(Reading(TYPE, filter=long)).events == events[11:]


def test_events_are_found_by_more_spans_than_a_database_takes(url):
    events = [event(number) for number in range(2_500)]
    spans = [Span(2.0 * number, 2.0 * number + 1) for number in range(1_200)]
    with HistoryStore(url, VAULT) as store:
        store.keep(Keeping(TYPE, KINDS))
        store.append([(each, encode(each)) for each in events])
        found, page = [], store.read(Reading(TYPE, spans), limit=70)
        while page.after is not None:
            found += page.events
            page = store.read(Reading(TYPE, spans), page.after, 70)
        assert [*found, *page.events] == events[:2_400:2]


def test_events_are_counted_unopened_where_the_database_knows_enough(url):
    drugs = [None if number % 5 == 0 else "aspirin" for number in range(20)]
    events = [event(number, amount=number, drug=drug) for number, drug in enumerate(drugs)]
    many, few = Clause(Span(0, 15), Order(path(AMOUNT), ">=", 4)), Clause(Span(end=9), Equal(path(AMOUNT), 3))
    with HistoryStore(url, VAULT) as store:
        store.keep(Keeping(TYPE, KINDS, {AMOUNT: Search.CLEAR, DRUG: Search.BLIND}))
        add(store, events)
        there = [each for each in events if each.attributes.get(DRUG) is not None and 1 <= each.time < 13]
        wanted = [each for each in there if each.sequence >= 4 or each.sequence == 3]
        counted = store.count(Counting(TYPE, DRUG, Span(1, 13), [many, few]))
        assert counted == Counted(len(wanted), wanted[0].time, wanted[-1].time)
        left = [each for each in wanted if each.sequence != 3]
        assert store.count(Counting(TYPE, DRUG, Span(1, 13), [many, few], [few])).events == len(left)
        assert store.count(Counting(TYPE, DRUG, Span(50, 60))) == Counted(0, None, None)
        assert store.count(Counting(TYPE, DOSE)) is None  # of which the database knows nothing
        assert store.count(Counting(TYPE, DRUG, wanted=[Clause(filter=Equal(path(DOSE), 1.0))])) is None


def test_two_zeros_are_one_value_for_whoever_searches(url):
    events = [event(1, dose=-0.0), event(2, dose=0.0), event(3, dose=0)]
    with HistoryStore(url, VAULT) as store:
        store.keep(Keeping(TYPE, KINDS, ALL_BLIND))
        store.append([(each, encode(each)) for each in events])
    with HistoryStore(url, EventCipher(b"k" * 32)) as store:
        assert store.read(Reading(TYPE, filter=Equal(path(DOSE), 0))).events == events
        assert store.read(Reading(TYPE, filter=Equal(path(DOSE), -0.0))).events == events


CUT_OFF = (
    "DELETE FROM {table} WHERE id > 10",
    "UPDATE history_heads SET head = (SELECT link FROM {table} WHERE id = 10)",
)
"""What whoever has the disk can do: end the chain with another row, as its links show."""
BEGUN_LATER = (
    "UPDATE history_heads SET base = (SELECT link FROM {table} WHERE id = 3)",
    "DELETE FROM {table} WHERE id < 4",
)
OLDER = ("UPDATE history_about SET version = 3",)


@pytest.mark.parametrize(
    "statements", [CUT_OFF, BEGUN_LATER, (*CUT_OFF, *OLDER), ("DELETE FROM history_heads",)]
)
def test_a_chain_that_was_cut_off_shows_although_its_ends_were_adapted(url, statements):
    with HistoryStore(url, VAULT) as history:
        keep(history)
        add(history, [event(number) for number in range(20)])
    engine = create_engine(url)
    with engine.begin() as connection:
        for each in statements:
            connection.execute(text(each.format(table=f"events_{TYPE}")))
    engine.dispose()
    with HistoryStore(url, VAULT) as history, pytest.raises(HistoryDamaged, match="the ends of the chain"):
        list(history.verify(TYPE))


RETYPED = [
    (AttributeType.INTEGER, 5, AttributeType.STRING, "5"),
    (AttributeType.INTEGER, 5, AttributeType.FLOAT, 5.5),
    (AttributeType.STRING, "5", AttributeType.INTEGER, 5),
    (AttributeType.BOOLEAN, True, AttributeType.STRING, "true"),
]


@pytest.mark.parametrize("how", list(Search))
@pytest.mark.parametrize(("was", "old", "becomes", "new"), RETYPED)
def test_an_attribute_that_gets_another_type_is_found_by_its_values_all_the_same(
    url, was, old, becomes, new, how
):
    kinds, events = (
        (was, becomes, was),
        [event(number, amount=(old, new, old)[number]) for number in range(3)],
    )
    wanted = [*(Equal(path(AMOUNT), each) for each in (old, new)), Order(path(AMOUNT), "<", 6)]
    with HistoryStore(url, VAULT) as history:
        for kind, each in zip(kinds, events, strict=True):
            history.keep(Keeping(TYPE, {AMOUNT: kind}, {AMOUNT: how}))
            add(history, [each])
        for filter_ in (*wanted, *map(Not, wanted)):
            holds = compile_predicate(filter_, EVENT)
            assert everything(history, filter_) == [each for each in events if holds(each.attributes)]


def test_what_was_stored_while_it_was_not_searched_by_an_attribute_is_found_later(url):
    events = [event(number, drug="morphine") for number in range(3)]
    with HistoryStore(url, VAULT) as history:
        for each, searched in zip(events, ({DRUG: Search.BLIND}, {}, {DRUG: Search.BLIND}), strict=True):
            keep(history, searched)
            add(history, [each])
        assert everything(history, Equal(path(DRUG), "morphine")) == events

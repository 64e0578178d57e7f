"""Filters are read by those who may read what they test; others lose nothing by it, and learn nothing."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.predicate import (
    EVENT,
    TRUE,
    And,
    Equal,
    Not,
    Or,
    Order,
    Path,
    Predicate,
    Relate,
    compile_predicate,
)
from pubsub_core.keys import Binding, DataKey, KeyMissing, KeyRing, Plan, Sealer
from pubsub_core.keys.filters import SealedFilter, View, open_filter, seal_filter

A, B, C, CLEAR = (f"{n:032x}" for n in range(1, 5))
PLAN = Plan.each([A, B, C])
BINDING = Binding("a" * 32, "b" * 32, b"p" * 32, 1000.0, 1, "filter")
ATTRIBUTES = st.sampled_from([A, B, C, CLEAR])
PATHS = ATTRIBUTES.map(lambda attribute: Path("event", (attribute,)))
LEAVES = st.one_of(
    st.builds(Equal, PATHS, st.integers(0, 3)),
    st.builds(Order, PATHS, st.sampled_from(["<", ">="]), st.integers(0, 3)),
    st.builds(Relate, PATHS, st.just("=="), PATHS),
)
TERMS = st.one_of(
    LEAVES,
    st.builds(Not, LEAVES),
    st.lists(LEAVES, min_size=1, max_size=2).map(lambda each: Or(tuple(each))),
)
FILTERS = st.lists(TERMS, max_size=4).map(lambda terms: And(tuple(terms)))
EVENTS = st.dictionaries(ATTRIBUTES, st.integers(0, 3))
HELD = st.sets(st.sampled_from([A, B, C]))


def ring_of(groups) -> KeyRing:
    ring = KeyRing()
    for group in groups:
        ring.add(DataKey(group, 1, 0.0, bytes.fromhex(group) * 2))
    return ring


def sealed(predicate: Predicate) -> SealedFilter:
    made = seal_filter(predicate, PLAN, Sealer(PLAN, ring_of([A, B, C])), BINDING)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=SealedFilter)


def view(predicate: Predicate, held) -> View:
    return open_filter(sealed(predicate), PLAN, ring_of(held))


def hides(predicate: Predicate, held) -> bool:
    return bool(view(predicate, held).hidden)


@given(FILTERS, EVENTS)
def test_whoever_holds_all_keys_reads_the_filter(predicate, event):
    seen = view(predicate, [A, B, C])
    assert not seen.hidden
    assert compile_predicate(seen.known, EVENT)(event) == compile_predicate(predicate, EVENT)(event)


@given(FILTERS, HELD, EVENTS)
def test_whoever_lacks_keys_lets_through_everything_that_is_wanted(predicate, held, event):
    if compile_predicate(predicate, EVENT)(event):
        assert compile_predicate(view(predicate, held).known, EVENT)(event)


@given(st.integers(0, 2**60), st.integers(0, 2**60))
def test_two_filters_that_differ_only_in_what_is_hidden_look_alike(one, another):
    plan = Plan.each([A, B, C], sizes=(128,))
    sealer = Sealer(plan, ring_of([A, B, C]))
    made = [seal_filter(Equal(Path("event", (A,)), value), plan, sealer, BINDING) for value in (one, another)]
    assert len({len(msgspec.msgpack.encode(each)) // 8 for each in made}) == 1
    assert {(each.clear, tuple(term.groups for term in each.terms)) for each in made} == {(TRUE, ((A,),))}


def test_a_term_over_two_groups_takes_both_keys():
    both = Relate(Path("event", (A,)), "==", Path("event", (B,)))
    assert [hides(both, held) for held in ([A], [B], [A, B])] == [True, True, False]


def test_the_constants_of_a_filter_do_not_travel():
    made = sealed(Equal(Path("event", (A,)), "AE05 XYZ"))
    assert b"AE05" not in msgspec.msgpack.encode(made)


def test_a_filter_on_what_is_not_held_cannot_be_sealed():
    with pytest.raises(KeyMissing):
        seal_filter(Equal(Path("event", (A,)), 1), PLAN, Sealer(PLAN, ring_of([B])), BINDING)


@given(FILTERS, FILTERS)
def test_terms_of_another_filter_or_place_are_not_taken(one, other):
    """Terms cut out of one subscription do not count in another."""
    first = sealed(one)
    moved = msgspec.structs.replace(first, binding=msgspec.structs.replace(BINDING, sequence=2))
    assert open_filter(moved, PLAN, ring_of([A, B, C])).hidden == {term.groups for term in first.terms}
    relabelled = msgspec.structs.replace(
        first, terms=tuple(msgspec.structs.replace(term, groups=(C, *term.groups)) for term in first.terms)
    )
    assert open_filter(relabelled, PLAN, ring_of([A, B, C])).hidden == {
        term.groups for term in relabelled.terms
    }


def test_a_term_may_test_only_what_it_is_sealed_for():
    """A member of one group must not be able to speak about another's attributes in clear or under its own key."""
    sealer = Sealer(PLAN, ring_of([A, B]))
    made = sealed(Equal(Path("event", (A,)), 1))
    content = msgspec.msgpack.encode(Equal(Path("event", (B,)), 1))
    forged = msgspec.structs.replace(made.terms[0], sealed=sealer.seal_for(A, BINDING, (content,)))
    seen = open_filter(msgspec.structs.replace(made, terms=(forged,)), PLAN, ring_of([A, B]))
    assert seen == View(And(()), frozenset({(A,)}))


@given(FILTERS, EVENTS)
def test_nobody_routes_by_sealed_attributes_with_a_filter_in_clear(predicate, event):
    seen = open_filter(SealedFilter(BINDING, predicate), PLAN, ring_of([A, B, C]))
    public = {name: value for name, value in event.items() if name == CLEAR}
    wants = compile_predicate(seen.known, EVENT)
    assert wants(event) == wants(public)

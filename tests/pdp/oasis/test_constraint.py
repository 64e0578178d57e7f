"""Constraints with variables: binding them changes nothing about what they mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authz import Entity, Request
from authz.predicate import And, Equal, Exists, Not, Or, Path, Relate, compile_predicate
from pdp.oasis.constraint import (
    Case,
    bind,
    bind_literals,
    compile_constraint,
    constraint_witness,
    unguarded,
    variables,
)
from tests.pdp.oasis import rules as some

values = st.sampled_from(["a", "b", 1, 9, 17])
bindings = st.fixed_dictionaries(dict.fromkeys(some.VARIABLES, values))
attributes = st.sampled_from([None, "a", "b", 1, 9, True, 1.5, ["a", 9], "m"])
requests = st.builds(
    lambda name, unit, hour: Request.of(
        Entity(name, {"unit": unit}), "o", "read", {"hour": hour, "a b": [hour]}
    ),
    st.sampled_from(["a", "b"]),
    attributes,
    attributes,
)
A = Path("subject", ("a",))


@given(some.predicates, requests, bindings)
def test_a_bound_constraint_holds_of_the_same_requests(predicate, request, bound):
    assert compile_predicate(bind(predicate, bound))(request) is compile_constraint(predicate)(
        Case(request, bound)
    )


@given(some.predicates, requests, bindings, requests)
def test_bound_literals_still_imply_the_outcome(predicate, request, bound, other):
    holds, literals = constraint_witness(predicate)(Case(request, bound))
    certificate = tuple(bind_literals(literals, bound))
    assert all(compile_predicate(each.predicate)(request) for each in certificate)
    if all(compile_predicate(each.predicate)(other) for each in certificate):
        assert compile_constraint(predicate)(Case(other, bound)) is holds


@given(some.predicates, requests, bindings)
def test_what_passes_as_guarded_is_not_made_true_by_taking_attributes_away(predicate, request, bound):
    assert unguarded(predicate) is None
    test = compile_constraint(predicate)
    bare = Request.of("", "o", "read")
    if test(Case(bare, bound)):
        assert test(
            Case(Request.of(Entity("", request.subject.attributes), "o", "read", request.context), bound)
        )


def test_a_negation_without_exists_beside_it_is_found():
    unequal = Not(Equal(A, 1))
    assert unguarded(unequal) == unequal
    assert unguarded(Or((Exists(A), unequal))) == unequal
    assert unguarded(And((Exists(A), Or((unequal, Equal(A, 2)))))) is None
    assert unguarded(And((Exists(A), Not(unequal)))) == Not(unequal)


def test_variables_are_paths_without_a_root():
    assert variables(And((Equal(A, 1), Exists(Path.variable("d"))))) == {"d"}


def test_a_number_beside_an_id_is_its_text():
    for same in (
        Relate(Path("object"), "==", Path.variable("d")),
        Relate(Path.variable("d"), "==", Path("object")),
    ):
        named = Request.of("ann", "42", "read")
        assert compile_constraint(same)(Case(named, {"d": 42}))
        assert bind(same, {"d": 42}) == Equal(Path("object"), "42")
        assert not compile_constraint(same)(Case(Request.of("ann", "43", "read"), {"d": 42}))
    attribute = Relate(A, "==", Path.variable("d"))
    assert not compile_constraint(attribute)(
        Case(Request.of(Entity("ann", {"a": "42"}), "o", "read"), {"d": 42})
    )


def test_a_value_of_another_type_is_not_unequal():
    different = And((Exists(A), Exists(Path.variable("d")), Not(Relate(A, "==", Path.variable("d")))))
    for value, holds in (("8", True), ("7", False), (7, False), (None, False)):
        request = Request.of(Entity("ann", {} if value is None else {"a": value}), "o", "read")
        assert compile_constraint(different)(Case(request, {"d": "7"})) is holds
        assert compile_predicate(bind(different, {"d": "7"}))(request) is holds

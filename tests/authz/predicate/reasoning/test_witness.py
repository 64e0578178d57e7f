"""Why a predicate is true or false of something."""

from __future__ import annotations

from hypothesis import given, settings

from authz import Entity, Request
from authz.predicate import REQUEST, And, Equal, Exists, Literal, Not, Or, Path, compile_predicate
from authz.predicate.reasoning.witness import compile_witness
from tests.authz import predicates as some

A, B = Path("subject", ("a",)), Path("context", ("b",))
ASKED = Request.of(Entity("s", {"a": 1}), "o", "read")


@given(some.predicates, some.requests, some.requests)
@settings(max_examples=150)
def test_wherever_the_literals_hold_the_predicate_has_the_same_value(predicate, request, other):
    holds, literals = compile_witness(predicate, REQUEST)(request)
    assert holds is compile_predicate(predicate)(request)
    assert all(compile_predicate(each.predicate)(request) for each in literals)
    if all(compile_predicate(each.predicate)(other) for each in literals):
        assert compile_predicate(predicate)(other) is holds


def test_one_term_is_enough_where_one_settles_it():
    either = Or((Equal(A, 2), Equal(A, 1), Exists(B)))
    assert compile_witness(either, REQUEST)(ASKED) == (True, (Literal(Equal(A, 1)),))
    both = And((Equal(A, 1), Not(Equal(A, 1)), Exists(B)))
    assert compile_witness(both, REQUEST)(ASKED) == (False, (Literal(Equal(A, 1)),))


def test_all_terms_are_needed_where_all_settle_it():
    either = Or((Equal(A, 2), Exists(B)))
    assert compile_witness(either, REQUEST)(ASKED) == (
        False,
        (Literal(Equal(A, 2), False), Literal(Exists(B), False)),
    )

"""Conditions fall apart into parts that together mean the same."""

from __future__ import annotations

from hypothesis import given, settings

from authz.predicate import (
    FALSE,
    TRUE,
    And,
    Equal,
    Exists,
    Not,
    Or,
    Order,
    Path,
    Relate,
    compile_predicate,
    paths,
)
from spark_eval.plans.split import MAX_CLAUSES, Clause, split
from tests.authz import predicates as some

DEPT, OWNER, HOUR = Path("subject", ("dept",)), Path("object", ("owner",)), Path("context", ("hour",))
SALES = Equal(DEPT, "sales")
LATE = Order(HOUR, ">", 18)
READ = Equal(Path("action"), "read")
OWN = Relate(Path("subject"), "==", OWNER)


@settings(max_examples=60, deadline=None)
@given(some.predicates, some.requests)
def test_a_condition_holds_where_one_of_its_clauses_does(condition, request):
    clauses = split(condition)
    found = any(
        all(
            compile_predicate(part)(request)
            for part in (clause.subject, clause.permission, clause.join, clause.ask)
        )
        for clause in clauses
    )
    assert found is compile_predicate(condition)(request)


@settings(max_examples=60, deadline=None)
@given(some.predicates)
def test_each_part_looks_only_where_it_may(condition):
    for clause in split(condition):
        assert {path.root for path in paths(clause.subject)} <= {"subject"}
        assert {path.root for path in paths(clause.permission)} <= {"object", "action"}
        assert "context" not in {path.root for path in paths(clause.join)}


def test_the_usual_policy_is_one_clause():
    assert split(And((READ, SALES, OWN, LATE))) == (Clause(SALES, READ, OWN, LATE),)


def test_alternatives_become_clauses_of_their_own():
    assert split(And((READ, Or((SALES, LATE, Exists(DEPT)))))) == (
        Clause(Or((SALES, Exists(DEPT))), READ),
        Clause(TRUE, READ, TRUE, LATE),
    )


def test_a_negation_is_carried_inward():
    assert split(Not(And((SALES, LATE)))) == (Clause(Not(SALES)), Clause(ask=Not(LATE)))


def test_what_never_holds_has_no_part_that_could():
    assert split(FALSE) == (Clause(permission=FALSE),)
    assert split(TRUE) == (Clause(),)


def test_what_would_fall_apart_too_far_is_left_whole():
    either = [Or((Equal(DEPT, str(n)), Equal(OWNER, str(n)))) for n in range(8)]
    clauses = split(And((READ, *either)))
    assert len(clauses) == MAX_CLAUSES
    assert all(clause.join == And(tuple(either[6:])) for clause in clauses)
    (clause,) = split(And((SALES, Or(tuple(And((each, LATE)) for each in either * 5)))))
    assert clause.subject == SALES
    assert {path.root for path in paths(clause.ask)} == {"subject", "object", "context"}

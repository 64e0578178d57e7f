"""Conditions as text: what is printed is read back, and what cannot be read is refused where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given

from authz import Entity, Request
from authz.errors import InvalidSyntax
from authz.predicate import (
    And,
    Equal,
    Exists,
    Not,
    Or,
    Overlaps,
    Path,
    Predicate,
    compile_predicate,
)
from tests.authz import predicates as some
from tests.authz.predicates import parse_predicate

A = Path("subject", ("a",))


def plain(predicate: Predicate) -> Predicate:
    """The same without conjunctions and disjunctions of one term, which print as that term."""
    if isinstance(predicate, Not):
        return Not(plain(predicate.term))
    if isinstance(predicate, (And, Or)):
        terms = tuple(map(plain, predicate.terms))
        return terms[0] if len(terms) == 1 else type(predicate)(terms)
    return predicate


@given(some.predicates)
def test_what_is_printed_is_read_back(predicate):
    assert parse_predicate(str(plain(predicate))) == plain(predicate)


def test_a_bare_name_is_a_variable_and_id_is_the_entity_itself():
    assert str(parse_predicate("d == subject.id")) == "d == subject.id"
    assert parse_predicate('subject.id == "x"') == Equal(Path("subject"), "x")
    assert parse_predicate('subject["id"] == "x"') == Equal(Path("subject", ("id",)), "x")
    assert parse_predicate('subject.first-name[0].x == "x"') == Equal(
        Path("subject", ("first-name", 0, "x")), "x"
    )


def test_unequal_is_false_of_a_missing_attribute():
    unequal = parse_predicate("subject.a != 1")
    assert unequal == And((Exists(A), Not(Equal(A, 1))))
    holds = compile_predicate(unequal)
    asked = [Request.of(Entity("s", attributes), "o", "a") for attributes in ({}, {"a": 1}, {"a": 2})]
    assert [holds(each) for each in asked] == [False, False, True]


def test_in_with_the_constant_first_looks_into_a_list():
    assert parse_predicate('"x" in subject.a') == Overlaps(A, ("x",))


def test_and_binds_closer_than_or_and_comments_are_skipped():
    text = "subject.a == 1 or # first\n subject.a == 2 and exists subject.a"
    assert str(parse_predicate(text)) == "subject.a == 1 or (subject.a == 2 and exists subject.a)"


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("subject.a == ", 1, 13, "the end cannot stand here"),
        ("subject.a == 1\n  android", 2, 3, "`android` cannot stand here: expected"),
        ("subject.a ~ 3", 1, 11, "`~` cannot stand here"),
        ("subject.a == 1 " + "x" * 5000, 1, 16, "`" + "x" * 60 + "...` cannot stand here"),
        ("subject.a < true", 1, 1, "compares numbers or strings"),
        ("subject.a[1.5] == 2", 1, 11, "no position in a list"),
        ('subject.a == "\\ud800"', 1, 14, "half a character"),
        ("subject.a == 1e999", 1, 14, "too large"),
        ("", 1, 1, "the end cannot stand here"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_stands(text, line, column, problem):
    with pytest.raises(InvalidSyntax) as refused:
        parse_predicate(text, "rules.txt")
    assert (refused.value.line, refused.value.column) == (line, column)
    assert problem in refused.value.problem
    assert str(refused.value).startswith(f"rules.txt:{line}:{column}: ")


def test_an_error_says_what_would_be_right():
    with pytest.raises(InvalidSyntax, match="`and` or `ignoring case` or `or`"):
        parse_predicate("subject.a == 1 und")

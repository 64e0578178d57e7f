"""What filters may cost: counted before they are compiled."""

from __future__ import annotations

import pytest

from authz.errors import InvalidPredicate, InvalidSyntax
from authz.predicate import And, Equal, Glob, Not, Or, Path, Predicate, Regex, compile_predicate
from authz.predicate.cost import MAX_COMPARISONS, MAX_GLOB, PEER_COMPARISONS, check_cost
from authz.predicate.filter import MAX_FILTER, parse_filter
from authz.predicate.regex import FILTER_WORK, work
from authz.rules import parse_term

TEXT = Path("event", ("t",))


def nested(depth: int) -> Predicate:
    predicate: Predicate = Equal(TEXT, "a")
    for _ in range(depth):
        predicate = Not(predicate)
    return predicate


@pytest.mark.parametrize(
    "pattern",
    [r"\w" * 2000, r"\w{30}", r"(\d{90}){90}", r"(\w\W){12}", "(?i)" + "x" * 200, r"x\b " * 20, "a" * 20_000,
     "(?:a{900}){900}", r"[\w\W\d\D]{9999}", r"(\w|(\w|(\w|\w{20})))"],
)  # fmt: skip
def test_a_regular_expression_that_takes_too_much_is_refused_in_a_filter(pattern):
    with pytest.raises(InvalidPredicate, match="takes too much to search for"):
        check_cost(Regex(TEXT, pattern))


@pytest.mark.parametrize(
    "pattern",
    [r"^\w+@\w+\.\w{2,6}$", r"(?a)^\w{1,64}@\w{1,255}$", r"(?i)urgent|secret", r"[a-z0-9-]{1,63}", r"\bSoho\b",
     r"\d{1,9}", "a{1,500}"],
)  # fmt: skip
def test_what_people_write_is_not(pattern):
    check_cost(Regex(TEXT, pattern))
    compile_predicate(Regex(Path("subject", ("t",)), pattern))


def test_all_expressions_of_a_filter_are_counted_together():
    one = Regex(TEXT, r"\w\w")
    most = FILTER_WORK // work(r"\w\w", FILTER_WORK)
    check_cost(Or((one,) * most))
    with pytest.raises(InvalidPredicate, match="takes too much"):
        check_cost(Or((one,) * (most + 1)))


def test_policies_may_have_more_than_filters_and_not_without_end():
    compile_predicate(Regex(Path("subject", ("t",)), r"\w{100}"))
    with pytest.raises(InvalidPredicate, match="takes too much"):
        compile_predicate(Regex(Path("subject", ("t",)), r"\w{900}"))


def test_comparisons_depth_and_patterns_are_bounded():
    many = And((Equal(TEXT, "a"),) * (MAX_COMPARISONS + 1))
    for predicate in (many, Or((Not(many), many)), nested(50), nested(900), Glob(TEXT, "*" * (MAX_GLOB + 1))):
        with pytest.raises(InvalidPredicate):
            check_cost(predicate)
    check_cost(many, PEER_COMPARISONS)
    check_cost(nested(30))


def test_long_texts_are_refused_before_they_are_read():
    with pytest.raises(InvalidSyntax, match=f"at most {MAX_FILTER:,} characters"):
        parse_filter("(" * (MAX_FILTER + 1))
    with pytest.raises(InvalidSyntax, match=f"at most {MAX_FILTER:,} characters"):
        parse_term("f(" * MAX_FILTER)

"""Every condition class means what it does in py-abac, but what is negative is false of what does not fit."""

from __future__ import annotations

from typing import get_args

import pytest

from authz import Entity, Request
from authz.predicate import Predicate, compile_predicate
from pdp.abac import Algorithm, read_policy
from pdp.abac.conditions import Condition
from pdp.abac.oracle import Oracle
from tests.pdp.cases import CONDITIONS, Cases


def test_there_are_exactly_the_conditions_of_py_abac():
    # Not at the top: the oracle's import must come first, which silences py-abac's warnings.
    from py_abac.policy.conditions.schema import ConditionSchema

    assert sorted(NAMES) == sorted(ConditionSchema.type_schemas)


def test_the_random_cases_cover_every_condition():
    logic = {"AllOf", "AnyOf", "Not"}
    assert {name for names in CONDITIONS.values() for name in names} | logic == NAMES


@pytest.mark.parametrize("path", sorted(CONDITIONS))
def test_a_condition_agrees_with_py_abac(path):
    cases = Cases(7)
    for name in dict.fromkeys(CONDITIONS[path]):
        condition = {"condition": name, **cases._fields(name, path)}
        policy = {"uid": "p", "effect": "allow", "targets": {}, "rules": {"resource": {path: condition}}}
        oracle = Oracle([policy], Algorithm.DENY_OVERRIDES)
        there, here = (
            compile_predicate(read_policy(policy, as_py_abac).condition) for as_py_abac in (True, False)
        )
        for _ in range(40):
            request = Request(
                Entity("ann", cases.attributes()),
                Entity("/x", cases.attributes()),
                Entity("read"),
                cases.attributes(),
            )
            assert there(request) == oracle.allows(request), (condition, request)
            assert here(request) in (there(request), False), (condition, request)
            if name in UNCHANGED:
                assert here(request) == there(request), (condition, request)


CHANGED = {"Not", "IsNotIn", "NotEqualsAttribute", "IsNotInAttribute"}
"""The conditions that py-abac takes to be true of what is missing or of another type."""
NAMES = {each.__struct_config__.tag for each in get_args(Condition)}
UNCHANGED = NAMES - CHANGED


def negative(condition: dict[str, object], effect: str = "allow") -> Predicate:
    rules = {"subject": {"$.a": condition}}
    return read_policy({"uid": "p", "effect": effect, "targets": {}, "rules": rules}).condition


def holds(predicate: Predicate, value: object, **context: object) -> bool:
    request = Request.of(Entity("ann", {} if value is None else {"a": value}), "/x", "read", context)
    return compile_predicate(predicate)(request)


NEGATIVE = [
    ({"condition": "Neq", "value": 5}, 6, 5, "6"),
    ({"condition": "NotEquals", "value": "x"}, "y", "x", 5),
    ({"condition": "NotContains", "value": "x"}, "y", "axb", ["y"]),
    ({"condition": "IsNotIn", "values": ["x", "y"]}, "z", "x", ["x"]),
    ({"condition": "IsNotIn", "values": ["x", {"n": 1}]}, {"n": 2}, {"n": 1}, 5),
    ({"condition": "AnyNotIn", "values": ["x"]}, ["y"], ["x", "y"], "x"),
    ({"condition": "AllNotIn", "values": ["x"]}, ["x", "y"], ["x"], "y"),
    ({"condition": "IsNotEmpty"}, ["x"], [], "x"),
    ({"condition": "Not", "value": {"condition": "Gt", "value": 5}}, 5, 6, "5"),
    ({"condition": "Not", "value": {"condition": "RegexMatch", "value": "x"}}, "y", "x", 5),
    ({"condition": "Not", "value": {"condition": "CIDR", "value": "10.0.0.0/8"}}, "9.0.0.1", "10.0.0.1", "nowhere"),
    ({"condition": "Not", "value": {"condition": "AnyIn", "values": ["x"]}}, ["y"], ["x"], "y"),
    ({"condition": "Not", "value": {"condition": "EqualsObject", "value": {"n": 1}}}, {"n": 2}, {"n": 1}, 5),
    ({"condition": "NotEqualsAttribute", "ace": "context", "path": "$.b"}, "x", "b", 5),
    ({"condition": "IsNotInAttribute", "ace": "context", "path": "$.c"}, "x", "c", None),
]  # fmt: skip
"""Conditions, with a value that fulfils each, one that does not, and one that does not fit."""


@pytest.mark.parametrize(("condition", "good", "bad", "misfit"), NEGATIVE)
def test_what_is_negative_is_false_of_what_is_missing_or_of_another_type(condition, good, bad, misfit):
    predicate, known = negative(condition), {"b": "b", "c": ["c"]}
    assert holds(predicate, good, **known)
    assert not any(holds(predicate, value, **known) for value in (bad, misfit, None))


@pytest.mark.parametrize(("condition", "good", "bad", "misfit"), NEGATIVE)
def test_in_a_deny_it_is_true_of_that_and_nobody_escapes_by_leaving_an_attribute_out(
    condition, good, bad, misfit
):
    predicate, known = negative(condition, "deny"), {"b": "b", "c": ["c"]}
    assert holds(predicate, good, **known)
    assert not holds(predicate, bad, **known)
    about_what_is_there = condition["condition"] == "IsNotEmpty"
    for value in (misfit, None):
        assert holds(predicate, value, **known) is not about_what_is_there, value


@pytest.mark.parametrize(("condition", "good", "bad", "misfit"), NEGATIVE)
def test_what_is_denied_twice_is_what_was_denied_and_no_more(condition, good, bad, misfit):
    predicate, known = negative({"condition": "Not", "value": condition}), {"b": "b", "c": ["c"]}
    assert holds(predicate, bad, **known)
    assert not any(holds(predicate, value, **known) for value in (good, misfit, None))


def test_a_negation_goes_inward():
    """Of what is compared in both parts, neither may be missing, whichever part is false."""
    one, two = {"condition": "Gt", "value": 5}, {"condition": "Equals", "value": "x"}
    neither = negative({"condition": "Not", "value": {"condition": "AnyOf", "values": [one, one]}})
    assert [holds(neither, value) for value in (5, 6, "x", None)] == [True, False, False, False]
    not_both = negative({"condition": "Not", "value": {"condition": "AllOf", "values": [one, two]}})
    assert [holds(not_both, value) for value in (5, 6, "x", "y", None)] == [True, False, False, True, False]


def test_what_is_about_absence_stays_what_it_was():
    absent = negative({"condition": "NotExists"})
    assert (holds(absent, None), holds(absent, 5)) == (True, False)
    assert negative({"condition": "Not", "value": {"condition": "Exists"}}) == absent
    present = negative({"condition": "Not", "value": {"condition": "NotExists"}})
    assert (holds(present, None), holds(present, 5)) == (False, True)


def test_a_relation_to_what_is_missing_has_no_negation():
    different = negative({"condition": "NotEqualsAttribute", "ace": "context", "path": "$.b"})
    assert not holds(different, "x")
    assert not holds(different, None, b="x")
    assert not holds(different, None)
    outside = negative({"condition": "IsNotInAttribute", "ace": "context", "path": "$.c"})
    assert not holds(outside, "x")
    assert not holds(outside, "x", c="abc")


def test_in_a_deny_two_missing_attributes_are_not_known_to_be_equal():
    different = negative({"condition": "NotEqualsAttribute", "ace": "context", "path": "$.b"}, "deny")
    assert holds(different, None)
    assert not holds(different, "x", b="x")


def test_conditions_of_several_fail_closed_in_a_deny_part_by_part():
    several = [{"condition": "NotEquals", "value": "x"}, {"condition": "Equals", "value": "y"}]
    either, both = (negative({"condition": each, "values": several}, "deny") for each in ("AnyOf", "AllOf"))
    assert [holds(either, value) for value in (None, "x", "y")] == [True, False, True]
    assert [holds(both, value) for value in (None, "x", "y")] == [False, False, True]
    neither = negative({"condition": "Not", "value": {"condition": "AnyOf", "values": several}}, "deny")
    assert [holds(neither, value) for value in (None, "x", "y")] == [True, True, False]

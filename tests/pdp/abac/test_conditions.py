"""Every condition class means what it does in py-abac, also on attributes missing or of another type."""

from __future__ import annotations

import pytest

from authz import Entity, Request
from authz.predicate import compile_predicate
from pdp.abac import Algorithm, read_policy
from pdp.abac.conditions import NAMES
from pdp.abac.oracle import Oracle
from tests.pdp.cases import CONDITIONS, Cases


def test_there_are_exactly_the_conditions_of_py_abac():
    # Not at the top: the oracle's import must come first, which silences py-abac's warnings.
    from py_abac.policy.conditions.schema import ConditionSchema

    assert sorted(NAMES) == sorted(ConditionSchema.type_schemas)


def test_the_random_cases_cover_every_condition():
    logic = {"AllOf", "AnyOf", "Not"}
    assert {name for names in CONDITIONS.values() for name in names} | logic == set(NAMES)


@pytest.mark.parametrize("path", sorted(CONDITIONS))
def test_a_condition_agrees_with_py_abac(path):
    cases = Cases(7)
    for name in dict.fromkeys(CONDITIONS[path]):
        condition = {"condition": name, **cases._fields(name, path)}
        policy = {"uid": "p", "effect": "allow", "targets": {}, "rules": {"resource": {path: condition}}}
        oracle, holds = (
            Oracle([policy], Algorithm.DENY_OVERRIDES),
            compile_predicate(read_policy(policy).condition),
        )
        for _ in range(40):
            request = Request(
                Entity("ann", cases.attributes()),
                Entity("/x", cases.attributes()),
                Entity("read"),
                cases.attributes(),
            )
            assert holds(request) == oracle.allows(request), (condition, request)

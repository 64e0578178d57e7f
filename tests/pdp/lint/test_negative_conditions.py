"""Which policies mean something else than in py-abac: those with negative conditions, and no others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdp.abac import read_policy, reference
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet
from pdp.lint.negative_conditions import gaps
from tests.pdp.cases import Cases

INSIDE = "{condition: Not, value: {condition: CIDR, value: 10.0.0.0/8}}"


def found(*rules: str, effect: str = "allow") -> list[tuple[str, list[str]]]:
    text = "\n".join(
        f"- {{uid: p{n}, effect: {effect}, targets: {{resource_id: /x}}, rules: {each}}}"
        for n, each in enumerate(rules)
    )
    policies = PolicySet.read(Bundle.of([File("p.yaml", text)]))
    return [(each.policy.id, [str(path) for path in each.about]) for each in gaps(policies)]


@pytest.mark.parametrize(
    "rules",
    [
        "{subject: {$.a: {condition: NotEquals, value: x}}}",
        "{subject: {$.a: {condition: AnyNotIn, values: [x]}}}",
        "{subject: {$.a: {condition: NotExists}}}",
        "{subject: {$.a: {condition: Not, value: {condition: Exists}}}}",
        "{subject: {$.a: {condition: AllOf, values: [{condition: Equals, value: y},"
        " {condition: IsNotIn, values: [x]}]}}}",
    ],
)
def test_what_means_the_same_is_not_named(rules):
    assert found(rules) == []


def test_an_allow_is_named_with_what_it_compares():
    assert found(f"{{context: {{$.ip: {INSIDE}}}}}") == [("p0", ["context.ip"])]


def test_a_deny_is_named_where_py_abac_lets_those_escape_who_leave_an_attribute_out():
    assert found("{context: {$.ip: {condition: NotEquals, value: 10.0.0.1}}}", effect="deny") == [
        ("p0", ["context.ip"])
    ]
    assert found(f"{{context: {{$.ip: {INSIDE}}}}}", effect="deny") == []


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 100_000))
def test_no_other_policy_applies_to_other_requests_than_in_py_abac(seed):
    cases = Cases(seed)
    written = cases.policies(10)
    policies = PolicySet.read(Bundle.of([File("p.json", json.dumps(written))]))
    named = {each.policy.id for each in gaps(policies)}
    others = [
        (read_policy(each), read_policy(each, as_py_abac=True))
        for each in written
        if each["uid"] not in named
    ]
    for request in cases.requests(40):
        for ours, theirs in others:
            assert reference.applies(ours, request) is reference.applies(theirs, request)

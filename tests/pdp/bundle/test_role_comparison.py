"""Roles in attribute policies count as the role domain has them."""

from __future__ import annotations

import pytest

from authz import Entity, Request
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import InvalidPolicies, PolicySet
from pdp.documents.finding import Kind
from pdp.lint.linter import check

RULES = """
role admin, editor, doctor(d), consultant(d), chief(d, w), nurse(w)
admin > editor
consultant(d) > doctor(d)
editor |- privilege(edit, "doc/*")
doctor(d) |- privilege(read, "/records/*")
"""


def read(condition: str, rules: str = RULES) -> PolicySet:
    policy = f"- {{uid: p, effect: allow, targets: {{}}, rules: {{subject: {{$.roles: {condition}}}}}}}"
    files = [File("p.yaml", policy), *([File("r.oasis", rules)] if rules else [])]
    return PolicySet.read(Bundle.of(files))


def applies(policies: PolicySet, *roles: object) -> bool:
    decision = policies.engine().evaluate(Request.of(Entity("ann", {"roles": list(roles)}), "/y", "see"))
    return "p" in decision.policies


@pytest.mark.parametrize(
    ("values", "held", "counts"),
    [
        ("[editor]", ["editor"], True),
        ("[editor]", ["admin"], True),
        ("[admin]", ["editor"], False),
        ("[editor]", ["editor(x)"], False),  # it has no parameters, so this is another
        ("[doctor]", ["doctor(ann)"], True),
        ("[doctor]", ["consultant(ann)"], True),
        ('["doctor(ann)"]', ["doctor(ann)"], True),
        ('["doctor(ann)"]', ["consultant(ann)"], True),
        ('["doctor(ann)"]', ["doctor(bob)"], False),
        ("[editor, doctor]", ["x", "consultant(ann)"], True),
        ("[unheard]", ["unheard(of)"], True),
        ('["no role ("]', ["no role ("], True),
        ("[7]", [7], True),
        ("[]", ["editor"], False),
    ],
)
def test_seniority_and_parameters_count(values, held, counts):
    assert applies(read(f"{{condition: AnyIn, values: {values}}}"), *held) is counts
    assert applies(read(f"{{condition: AnyNotIn, values: {values}}}"), *held) is not counts
    inverted = f"{{condition: Not, value: {{condition: AnyIn, values: {values}}}}}"
    assert applies(read(inverted), *held) is not counts


def test_without_role_rules_they_are_texts():
    assert not applies(read("{condition: AnyIn, values: [doctor]}", rules=""), "doctor(ann)")


def test_a_role_that_some_holders_of_another_have_is_asked_for_with_its_parameters():
    rules = RULES + 'chief(d, "north") > doctor(d)\n'
    with pytest.raises(InvalidPolicies, match=r"p.yaml:1:4: `doctor` needs its parameters here"):
        read("{condition: AnyIn, values: [doctor]}", rules)


@pytest.mark.parametrize(
    ("condition", "warned"),
    [
        ("{condition: AnyIn, values: [editor]}", False),
        ("{condition: IsNotEmpty}", False),
        ("{condition: AllIn, values: [editor]}", True),
        ("{condition: AnyInAttribute, ace: resource, path: $.roles}", True),
    ],
)
def test_roles_that_are_compared_as_texts_are_reported(condition, warned):
    policy = f"- {{uid: p, effect: allow, targets: {{}}, rules: {{subject: {{$.roles: {condition}}}}}}}"
    found = check(Bundle.of([File("p.yaml", policy), File("r.oasis", RULES)]))
    assert (Kind.ROLES_AS_TEXT in {each.kind for each in found}) is warned

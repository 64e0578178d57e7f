"""Attribute policies say when roles alone decide about a permission, and only then."""

from __future__ import annotations

import pytest

from authz import Basis, Entity, Request
from pdp.abac.policy import Algorithm
from pdp.abac.reader import read_policies
from pdp.abac.source import AbacSource, PackedSource
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet

CLERKS = """
- uid: clerks
  effect: allow
  targets: {resource_id: /files/*, action_id: [read, write]}
  rules: {subject: {$.roles: {condition: AnyIn, values: [clerk, nurse]}}}
"""
OTHERS = {
    "a deny": "- {uid: o, effect: deny, targets: {resource_id: /files/9}, rules: {subject: {$.x: {condition: Any}}}}",
    "two roles": """
- uid: o
  effect: allow
  targets: {resource_id: /files/9}
  rules: {subject: [{$.roles: {condition: AnyIn, values: [a]}, $.dept: {condition: Equals, value: x}}]}
""",
    "everybody": "- {uid: o, effect: allow, targets: {resource_id: /files/9}, rules: {}}",
    "one subject": "- {uid: o, effect: allow, targets: {subject_id: ann, resource_id: /files/9}, rules: {}}",
    "all of some roles": """
- uid: o
  effect: allow
  targets: {resource_id: /files/9}
  rules: {subject: {$.roles: {condition: AllIn, values: [a]}}}
""",
    "an obligation": """
- uid: o
  effect: allow
  targets: {resource_id: /files/9}
  rules: {subject: {$.roles: {condition: AnyIn, values: [a]}}}
  obligations: [{log: it}]
""",
    "the context": """
- uid: o
  effect: allow
  targets: {resource_id: /files/9}
  rules: {subject: {$.roles: {condition: AnyIn, values: [a]}}, context: {$.hour: {condition: Lt, value: 9}}}
""",
}


def source(text, packed=False):
    policies, algorithm = read_policies(text), Algorithm.DENY_OVERRIDES
    return AbacSource(policies, algorithm, packed=PackedSource.of(policies, algorithm) if packed else None)


def verdict(its, object_, action="read", *roles):
    return its.judge(Request.of(Entity("ann", {"roles": list(roles)}), object_, action), certify=True)


@pytest.mark.parametrize("packed", [False, True])
def test_policies_that_ask_for_roles_alone_say_so(packed):
    its = source(CLERKS, packed)
    assert [verdict(its, "/files/1", "read", *roles).basis for roles in (["clerk"], [])] == [Basis.ROLES] * 2
    assert verdict(its, "/files/1", "delete").unconcerned
    assert verdict(its, "/till").unconcerned


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("other", OTHERS)
def test_where_anything_else_may_decide_they_do_not_whoever_asks(other, packed):
    its = source(CLERKS + OTHERS[other], packed)
    there, elsewhere = verdict(its, "/files/9", "read", "clerk"), verdict(its, "/files/8", "read", "clerk")
    assert (there.basis, there.unconcerned, elsewhere.basis) == (None, False, Basis.ROLES)


def test_a_role_is_also_its_seniors_where_there_is_a_hierarchy():
    rules = 'role clerk, boss, nurse\nboss > clerk\nboss |- privilege(read, "/till")\n'
    files = [File("abac.yaml", CLERKS), File("r.oasis", rules)]
    engine = PolicySet.read(Bundle.of(files)).engine(certify=True)
    for role, allowed in (("boss", True), ("clerk", True), ("other", False)):
        found = engine.evaluate(Request.of(Entity("ann", {"roles": [role]}), "/files/1", "read"))
        assert (found.allowed, found.basis) == (allowed, Basis.ROLES)

"""Obligations: what policies attach to their effect reaches whoever asked, and is never lost on the way."""

from __future__ import annotations

import pytest

from authz import Entity, Request
from authz.errors import InvalidSyntax
from pdp.abac.policy import Algorithm
from pdp.abac.reader import read_policies
from pdp.abac.reference import Reference
from pdp.abac.reference import decide as decide_by_reference
from pdp.abac.source import AbacSource
from pdp.engine.engine import Engine

POLICIES = """
- uid: everyone
  description: everyone may read the news
  effect: allow
  targets: {resource_id: "/news/*", action_id: read}
  rules: {}
- uid: guests
  effect: allow
  targets: {resource_id: "/news/*"}
  rules: {subject: {$.guest: {condition: Eq, value: 1}}}
  obligations:
    - {attributes: [headline]}
    - {filter: "age > 60"}
- uid: children
  effect: deny
  targets: {resource_id: "/news/war"}
  rules: {subject: {$.age: {condition: Lt, value: 12}}}
  obligations: [{tell: parents}]
"""
ASKED = {
    "nobody": Request.of("x", "/news/a", "read"),
    "guest": Request.of(Entity("x", {"guest": 1}), "/news/a", "read"),
    "child": Request.of(Entity("x", {"guest": 1, "age": 9}), "/news/war", "read"),
}


@pytest.fixture(params=[Algorithm.DENY_OVERRIDES, Algorithm.HIGHEST_PRIORITY])
def sources(request):
    policies = read_policies(POLICIES)
    return [AbacSource(policies, request.param)], [Reference(policies, request.param)]


def test_a_decision_carries_the_obligations_of_all_policies_that_determine_it(sources):
    fast, slow = sources
    expected = {
        "nobody": (),
        "guest": ({"attributes": ["headline"]}, {"filter": "age > 60"}),
        "child": ({"tell": "parents"},),
    }
    for name, request in ASKED.items():
        assert Engine(fast).evaluate(request).obligations == expected[name]
        assert decide_by_reference(slow, request).obligations == expected[name]


def test_an_answer_without_obligations_is_not_reused_where_there_would_be_some(sources):
    engine = Engine(sources[0], epoch=1, certify=True)
    free = engine.evaluate(ASKED["nobody"])
    assert free.certificate is not None
    assert any("guest" in str(literal) for literal in free.certificate)
    assert engine.evaluate(ASKED["guest"]).certificate is None


def test_obligations_that_are_no_objects_are_refused_where_they_stand():
    with pytest.raises(InvalidSyntax, match="line 13"):
        read_policies(POLICIES.replace('- {filter: "age > 60"}', "- hide"))

"""Actions of role rules: names, and names with `*`, told alike by decisions, certificates and changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Entity, Request
from authz.decision import Effect
from authz.predicate import compile_predicate
from pdp.oasis import Domains, RoleSource, parse
from pdp.oasis.actions import about, is_meant
from pdp.oasis.difference import reach

RULES = """
role clerk, guest
all: clerk |- privilege(*, "/all")
view: clerk |- privilege("view:*", "/x")
some: clerk |- privilege("*:public"|list, "/x")
plain: guest |- privilege("view:public", "/x")
"""
RULEBOOK = Domains([parse(RULES)]).everything()
SOURCE = RoleSource(RULEBOOK)
texts = st.text("ab:*?[.\n", max_size=6)


def asked(role: str, action: str, object_id: str = "/x") -> Request:
    return Request.of(Entity("ann", {"roles": [role]}), object_id, action)


@pytest.mark.parametrize(
    ("role", "action", "rules"),
    [
        ("clerk", "view:public", {"roles#view", "roles#some"}),
        ("clerk", "view:all", {"roles#view"}),
        ("clerk", "edit:public", {"roles#some"}),
        ("clerk", "list", {"roles#some"}),
        ("clerk", "view", set()),
        ("guest", "view:public", {"roles#plain"}),
        ("guest", "view:all", set()),
    ],
)
def test_a_wildcard_stands_for_any_text(role, action, rules):
    verdict = SOURCE.judge(asked(role, action), certify=True)
    assert (verdict.effect is Effect.ALLOW) is bool(rules)
    assert set(verdict.policies) <= rules
    assert verdict.certificate is not None
    assert all(compile_predicate(each.predicate)(asked(role, action)) for each in verdict.certificate)


def test_a_certificate_of_a_wildcard_implies_its_answer_for_other_actions():
    certificate = SOURCE.judge(asked("clerk", "view:all"), certify=True).certificate
    assert certificate is not None
    assert [str(each) for each in certificate if each.comparison.path.root == "action"] == [
        'action.id starts with "view:"'
    ]
    assert SOURCE.judge(asked("clerk", "view:others")).effect is Effect.ALLOW


@given(texts, texts)
def test_what_a_pattern_is_said_to_stand_for_it_stands_for(pattern, action):
    if not pattern or action in ("", ".") or not action.strip():
        return
    assert compile_predicate(about((pattern,)))(asked("clerk", action)) is is_meant(pattern, action)


def test_a_change_reaches_all_that_a_wildcard_stands_for():
    (view,) = (each for each in RULEBOOK.authorisations if each.name == "roles#view")
    reached = compile_predicate(reach(view))
    assert reached(asked("clerk", "view:anything"))
    assert not reached(asked("clerk", "edit"))

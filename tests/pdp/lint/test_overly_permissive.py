"""Policies that allow everything to everyone are found in every form, and nothing else is."""

from __future__ import annotations

import pytest

from authz import Identity
from pdp.bundle.bundle import Bundle, File
from pdp.documents.finding import Kind
from pdp.lint.linter import check


def named(**texts: str) -> list[str]:
    """The policies and rules that are said to allow everything."""
    files = [File("p.yaml", texts.get("policies", "[]"))]
    files += [File("r.oasis", texts["rules"])] if "rules" in texts else []
    found = check(Bundle.of(files))
    return [each.policy for each in found if each.kind is Kind.ALLOWS_EVERYTHING]


def policy(uid: str, targets: str = "", rules: str = "", effect: str = "allow") -> str:
    return f"- {{uid: {uid}, effect: {effect}, targets: {{{targets}}}, rules: {{{rules}}}}}\n"


IS_NAMED = "subject: {id: {condition: %s}}"


@pytest.mark.parametrize(
    ("targets", "rules"),
    [
        ("", ""),
        ("subject_id: '?*'", ""),
        ("subject_id: '*?', resource_id: '**', action_id: '?*'", ""),
        ("subject_id: [ann, '?*']", ""),
        ("", IS_NAMED % "Exists"),
        ("", IS_NAMED % "RegexMatch, value: '.+'"),
        ("", IS_NAMED % "RegexMatch, value: '^.*$'"),
    ],
)
def test_whatever_fits_every_name_fits_everybody(targets, rules):
    assert named(policies=policy("p", targets, rules)) == ["p"]


@pytest.mark.parametrize(
    ("targets", "rules"),
    [
        ("subject_id: '??*'", ""),
        ("subject_id: '?'", ""),
        ("resource_id: '/*'", ""),
        ("subject_id: '[!x]*'", ""),
        ("", IS_NAMED % "RegexMatch, value: '.+@.+'"),
        ("", "subject: {$.team: {condition: Exists}}"),
    ],
)
def test_what_leaves_somebody_out_is_not_called_everything(targets, rules):
    assert named(policies=policy("p", targets, rules)) == []


OTHERS = "action: {id: {condition: NotEquals, value: read}}"
DAY = "context: {$.hour: {condition: %s}}"


def test_several_policies_that_leave_nothing_out_between_them_are_named():
    reads = policy("reads", "action_id: read")
    rest = policy("rest", rules=OTHERS)
    ann = policy("ann", "subject_id: ann")
    assert named(policies=reads + ann + rest) == ["reads", "rest"]
    assert named(policies=reads + ann) == []
    assert named(policies=policy("ann-reads", "subject_id: ann, action_id: read") + rest) == []
    always = policy("told", rules=DAY % "Exists") + policy("untold", rules=DAY % "NotExists")
    assert named(policies=always) == ["told", "untold"]
    parts = "".join(
        policy(f"{n}", rules=DAY % condition)
        for n, condition in enumerate(["Lt, value: 8", "Gte, value: 8", "NotExists"])
    )
    assert named(policies=parts) == []  # an hour that is no number is left out


def test_a_deny_takes_no_part_in_it():
    assert (
        named(policies=policy("reads", "action_id: read") + policy("rest", rules=OTHERS, effect="deny")) == []
    )


EVERYBODY = "[principal(u)] |- user(u)\n"


@pytest.mark.parametrize(
    "rules",
    [
        EVERYBODY + 'all: user(u) |- privilege(*, "**")',
        EVERYBODY + 'all: user(u) |- privilege("*", "**")',
        EVERYBODY + 'user(u) |- guest\nall: guest |- privilege(*, "**")',
        EVERYBODY + 'user(u) > guest\nrole guest\nall: guest |- privilege(*, "**")',
        '|- user\nall: user |- privilege(*, "**")',
        EVERYBODY + 'all: user(u), [subject.id like "?*"] |- privilege(*, "**")',
    ],
)
def test_a_rule_for_a_role_that_anybody_may_activate_is_named(rules):
    assert named(rules=rules) == ["roles#all"]


@pytest.mark.parametrize(
    "rules",
    [
        'role user(u)\nall: user(u) |- privilege(*, "**")',
        '[principal("ann")] |- user("ann")\nall: user(u) |- privilege(*, "**")',
        EVERYBODY + 'all: user("ann") |- privilege(*, "**")',
        EVERYBODY + 'all: user(u) |- privilege(read, "**")',
        EVERYBODY + 'all: user(u) |- privilege(*, "/docs/**")',
        EVERYBODY + 'all: user(u), [context.n > 5] |- privilege(*, "**")',
        f"trust {Identity.generate().public} for employed\n{EVERYBODY}"
        'user(u), appointment employed(u) |- clerk\nall: clerk |- privilege(*, "**")',
    ],
)
def test_a_rule_that_asks_for_more_is_not(rules):
    assert named(rules=rules) == []


def test_a_finding_says_where_and_with_whom():
    found = check(Bundle.of([File("p.yaml", policy("a", "action_id: read") + policy("b", rules=OTHERS))]))
    assert [str(each) for each in found] == [
        "p.yaml:1:4: warning: `a`, together with `b`, allows everything to everyone: name subjects, objects or"
        " actions",
        "p.yaml:2:4: warning: `b`, together with `a`, allows everything to everyone: name subjects, objects or"
        " actions",
    ]

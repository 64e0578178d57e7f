"""Cases pass if the answer is the expected one, differences can be read, and unused policies are named."""

from __future__ import annotations

import pytest

from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import InvalidPolicies, PolicySet
from pdp.lint.difference import Difference
from pdp.lint.test_cases import Report, read_cases, run_cases

POLICIES = """\
- uid: clerks
  effect: allow
  targets: {action_id: read}
  rules: {subject: {$.role: {condition: Equals, value: clerk}}}
- {uid: frozen, effect: deny, targets: {}, rules: {resource: {$.state: {condition: Equals, value: frozen}}}}
"""
ROLES = 'role boss\nboss |- privilege(*, "**")\n'
CLERK = "subject: {id: ann, attributes: {role: clerk}}"


def run(*cases: str) -> Report:
    policies = PolicySet.read(Bundle.of([File("p.yaml", POLICIES), File("r.oasis", ROLES)]))
    return run_cases(policies, read_cases([File("cases.yaml", "".join(f"- {{{each}}}\n" for each in cases))]))


def test_cases_that_get_what_they_expect_pass():
    report = run(
        f"{CLERK}, object: /x, action: read, expect: allow, policies: [clerks]",
        f"{CLERK}, object: {{id: /x, attributes: {{state: frozen}}}}, action: read, expect: deny, policies: [frozen]",
        "subject: eve, object: /x, action: read, expect: deny, policies: []",
    )
    assert report.failures == ()
    assert report.exercised == ("clerks", "frozen")
    assert report.unexercised == ("roles#1",)
    assert report.coverage == pytest.approx(2 / 3)


LABELS = """\
levels: [low, high]
dominance: restricts
subjects: {table: {ann: low}}
objects: {table: {/x: high}}
"""
CARE = "audit: ALLOW SUBSCRIPTION TO prescribe WHERE credentials(user, auditor)\n"


def test_what_is_counted_is_what_a_push_counts():
    files = [File("p.yaml", POLICIES), File("r.oasis", ROLES), File("labels.yaml", LABELS)]
    files.append(File("care.rules", CARE))
    policies = PolicySet.read(Bundle.of(files))
    case = "- {subject: ann, object: /x, action: read, expect: deny, policies: [labels#no-read-up]}\n"
    report = run_cases(policies, read_cases([File("cases.yaml", case)]))
    assert report.failures == ()
    assert report.exercised == ("labels",)
    assert report.unexercised == ("clerks", "frozen", "audit", "roles#1")
    assert str(Difference.between(None, policies)) == "5 added"


def test_a_difference_says_what_came_instead_and_what_would_have_been_needed():
    (failure,) = run("subject: eve, object: /x, action: read, expect: allow, name: eve reads").failures
    assert str(failure.placed) == "cases.yaml:1: eve reads"
    assert failure.problem == "expected allow, got deny (no-policy)"
    assert 'would need subject.role == "clerk"; subject.role is missing' in str(failure.explanation)


def test_the_right_answer_for_the_wrong_reason_fails():
    report = run(
        f"{CLERK}, object: /x, action: read, expect: allow",
        f"{CLERK}, object: /x, action: read, expect: allow, policies: [roles#1]",
    )
    (failure,) = report.failures
    assert failure.placed.line == 2
    assert failure.problem == "expected allow by roles#1, got it by clerks"


@pytest.mark.parametrize(
    "text",
    [
        "- {subject: a, object: b, expect: allow}",
        "- {subject: a, object: b, action: c, expect: perhaps}",
        "- {subject: a, object: b, action: c, expect: allow, more: 1}",
        "- {subject: '', object: b, action: c, expect: allow}",
        "subject: a",
    ],
)
def test_a_case_that_cannot_be_meant_is_refused_with_its_place(text):
    with pytest.raises(InvalidPolicies, match=r"cases\.yaml:2:"):
        read_cases([File("cases.yaml", "# cases\n" + text)])

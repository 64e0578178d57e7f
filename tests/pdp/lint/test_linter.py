"""What `check` reports is so, is found where it stands, and what should be found is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Identity
from authz.predicate import compile_predicate, covers
from pdp.abac.policy import Algorithm
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet
from pdp.documents.finding import Finding, Kind, Level
from pdp.engine.cover_index import CoverIndex
from pdp.lint.linter import check
from tests.pdp.cases import Cases


def files(policies: str, **more: str) -> Bundle:
    return Bundle.of(
        [File("p.yaml", policies), *(File(name.replace("_", "."), text) for name, text in more.items())]
    )


def policy(uid: str, effect: str = "allow", rules: str = "", targets: str = "", priority: int = 0) -> str:
    body = f"rules: {{{rules}}}, targets: {{{targets}}}, priority: {priority}"
    return f"- {{uid: {uid}, effect: {effect}, {body}}}\n"


def found(bundle: Bundle) -> list[tuple[Kind, str]]:
    return [(each.kind, each.policy) for each in check(bundle)]


IDLE = {Kind.UNREACHABLE, Kind.SHADOWED, Kind.REDUNDANT, Kind.DUPLICATE}
DOCS = "resource_id: /docs/*"
DOC = "resource_id: /docs/7, action_id: read"


@pytest.mark.parametrize(
    ("algorithm", "policies", "expected"),
    [
        (
            "deny-overrides",
            policy("a", "allow", targets=DOC) + policy("b", "deny", targets=DOCS),
            Kind.SHADOWED,
        ),
        ("deny-overrides", policy("a", "deny", targets=DOC) + policy("b", "allow", targets=DOCS), None),
        (
            "deny-overrides",
            policy("a", "deny", targets=DOC) + policy("b", "deny", targets=DOCS),
            Kind.REDUNDANT,
        ),
        (
            "allow-overrides",
            policy("a", "deny", targets=DOC) + policy("b", "allow", targets=DOCS),
            Kind.SHADOWED,
        ),
        ("allow-overrides", policy("a", "allow", targets=DOC) + policy("b", "deny", targets=DOCS), None),
        (
            "highest-priority",
            policy("a", "deny", targets=DOC) + policy("b", "allow", targets=DOCS, priority=1),
            Kind.SHADOWED,
        ),
        (
            "highest-priority",
            policy("a", "allow", targets=DOC, priority=1) + policy("b", "deny", targets=DOCS),
            None,
        ),
        (
            "highest-priority",
            policy("a", "allow", targets=DOCS) + policy("b", "allow", targets=DOCS, priority=1),
            Kind.REDUNDANT,
        ),
    ],
)
def test_a_policy_that_another_covers_is_found(algorithm, policies, expected):
    bundle = files(policies, bundle_yaml=f"algorithm: {algorithm}")
    assert found(bundle) == ([] if expected is None else [(expected, "a")])


def test_of_two_policies_that_say_the_same_the_later_one_is_named():
    assert found(files(policy("a", targets=DOC) + policy("b", targets=DOC))) == [(Kind.DUPLICATE, "b")]


def test_a_policy_that_nothing_meets_is_found_where_it_stands():
    rules = (
        "context: {$.n: {condition: AllOf, values: [{condition: Gt, value: 5}, {condition: Lt, value: 3}]}}"
    )
    findings = check(files("# a comment\n" + policy("a", rules=rules)))
    assert findings == [Finding(Kind.UNREACHABLE, "p.yaml", 2, 4, "`a` never applies: nothing meets it", "a")]
    assert findings[0].level is Level.WARNING


SCHEMA = "attributes: {subject: {role: string, age: number, address: object}, object: {}}"


@pytest.mark.parametrize(
    ("path", "condition", "expected"),
    [
        ("$.role", "{condition: Equals, value: clerk}", None),
        ("$.role", "{condition: Exists}", None),
        ("$.address.city", "{condition: Equals, value: x}", None),
        ("$.rolle", "{condition: Equals, value: clerk}", Kind.UNKNOWN_ATTRIBUTE),
        ("$.age", "{condition: Equals, value: old}", Kind.WRONG_TYPE),
        ("$.age.years", "{condition: Gt, value: 7}", Kind.WRONG_TYPE),
        ("$.role", "{condition: AnyIn, values: [a]}", Kind.WRONG_TYPE),
        ("$.role", "{condition: IsIn, values: [1, a]}", None),
        ("$.role", "{condition: EqualsAttribute, ace: resource, path: $.owner}", Kind.UNKNOWN_ATTRIBUTE),
    ],
)
def test_attributes_are_held_against_the_schema(path, condition, expected):
    bundle = files(policy("a", rules=f"subject: {{{path}: {condition}}}"), bundle_yaml=SCHEMA)
    assert found(bundle) == ([] if expected is None else [(expected, "a")])
    assert all(each.level is Level.ERROR for each in check(bundle))


def test_an_attribute_is_found_in_the_line_that_uses_it():
    text = """\
- uid: a
  effect: allow
  targets: {}
  rules:
    subject:
      - $.role: {condition: Exists}
      - $.rolle: {condition: Exists}
"""
    (finding,) = check(files(text, bundle_yaml=SCHEMA))
    assert (finding.line, finding.column) == (7, 9)
    assert finding.text == "there is no attribute `subject.rolle`: did you mean `role`?"


def test_what_cannot_be_read_is_found_in_every_file():
    findings = check(files("- 7", more_yaml="]", r_oasis="what?"))
    assert [(each.kind, each.file, each.line) for each in findings] == [
        (Kind.SYNTAX, "more.yaml", 1),
        (Kind.SYNTAX, "p.yaml", 1),
        (Kind.SYNTAX, "r.oasis", 1),
    ]


def test_role_rules_are_looked_at_too():
    rules = """\
role clerk
one: clerk |- privilege(read, "/x")
two: clerk |- privilege(read, "/x")
never: clerk, [context.n > 5 and context.n < 3] |- privilege(read, "/y")
typo: clerk, [subject.rolle == "x"] |- privilege(read, "/z")
"""
    bundle = Bundle.of([File("r.oasis", rules), File("bundle.yaml", SCHEMA + "\n")])
    assert [(each.kind, each.line, each.policy) for each in check(bundle)] == [
        (Kind.DUPLICATE, 3, "two"),
        (Kind.UNREACHABLE, 4, "never"),
        (Kind.UNKNOWN_ATTRIBUTE, 4, "never"),
        (Kind.UNKNOWN_ATTRIBUTE, 4, "never"),
        (Kind.UNKNOWN_ATTRIBUTE, 5, "typo"),
    ]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 100_000), st.sampled_from(list(Algorithm)))
def test_whatever_is_reported_to_decide_nothing_can_be_taken_away(seed, algorithm):
    cases = Cases(seed)
    several = cases.policies(10)
    manifest = File("bundle.yaml", f"algorithm: {algorithm}")
    bundle = Bundle.of([File("p.json", json.dumps(several)), manifest])
    idle = {each.policy for each in check(bundle) if each.kind in IDLE}
    rest = json.dumps([each for each in several if each["uid"] not in idle])
    whole = PolicySet.read(bundle)
    left = PolicySet.read(Bundle.of([File("p.json", rest), manifest])).engine()
    unreachable = [each.policy for each in check(bundle) if each.kind is Kind.UNREACHABLE]
    conditions = [compile_predicate(each.condition) for each in whole.policies if each.id in unreachable]
    engine = whole.engine()
    for request in cases.requests(60):
        assert engine.evaluate(request).allowed is left.evaluate(request).allowed
        assert not any(holds(request) for holds in conditions)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 100_000))
def test_by_targets_the_index_leaves_out_nothing_that_covers(seed):
    cases = Cases(seed)
    targets = [{**cases.policy(f"p{n}"), "rules": {}} for n in range(12)]
    policies = PolicySet.read(Bundle.of([File("p.json", json.dumps(targets))])).policies
    index = CoverIndex((each.condition, each.id) for each in policies)
    for narrow in policies:
        candidates = set(index.candidates(narrow.condition))
        assert {wide.id for wide in policies if covers(wide.condition, narrow.condition)} <= candidates


PEOPLE = "subjects: {ann: {key: %s}, bob: {}}"


def test_a_key_that_is_none_is_found_where_sessions_need_it():
    rules, key = "[principal(u)] |- user(u)", str(Identity.generate().public)
    assert check(files("[]", r_oasis=rules, people_entities_yaml=PEOPLE % key)) == []
    assert check(files("[]", r_oasis=rules, people_entities_yaml=PEOPLE % f"[{key}, {key}]")) == []
    (none,) = check(files("[]", people_entities_yaml=PEOPLE % "desk"))
    assert none.kind is Kind.NO_POLICIES
    (wrong,) = check(files("[]", r_oasis=rules, people_entities_yaml=PEOPLE % f"[{key}, desk]"))
    assert str(wrong).startswith("people.entities.yaml:1:12: error: `desk` is not a public key")


def test_a_rule_that_rests_on_nobodys_word_is_found():
    key = str(Identity.generate().public)
    rules = "user(u), appointment employed(u) |- clerk(u)\nuser(u), [on(u)] |- guard(u)\n[principal(u)] |- user(u)"
    trusting = f"trust {key} for employed, on\n{rules}"
    assert check(files("[]", r_oasis=trusting)) == []
    assert [(each.kind, each.line) for each in check(files("[]", r_oasis=rules))] == [
        (Kind.UNREACHABLE, 1),
        (Kind.UNREACHABLE, 2),
    ]


def test_long_conditions_are_looked_at_too():
    rules = f"[{' and '.join(['context.a == 1'] * 3000)} and context.a == 2] |- x\n"
    assert [each.kind for each in check(files("[]", r_oasis=rules))] == [Kind.UNREACHABLE]

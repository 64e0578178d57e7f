"""From policy text to policies, and what is said about text that is wrong."""

from __future__ import annotations

import pytest

from authz.decision import Effect
from authz.errors import InvalidPredicate, InvalidSyntax
from authz.predicate import And, Equal, Glob, In, Not, Or, Order, Path, Prefix
from pdp.abac import Policy, read_policies, read_policy

JSON = """
{
  "uid": "1",
  "description": "managers read reports from inside",
  "effect": "allow",
  "rules": {"subject": {"$.level": {"condition": "Gte", "value": 3}}},
  "targets": {"subject_id": ["ann", "bob"], "resource_id": "/reports/*", "action_id": "read"},
  "priority": 2
}
"""
YAML = """
uid: "1"
description: managers read reports from inside
effect: allow
rules:
  subject:
    $.level: {condition: Gte, value: 3}
targets: {subject_id: [ann, bob], resource_id: /reports/*, action_id: read}
priority: 2
"""
MEANT = Policy(
    "1",
    Effect.ALLOW,
    And(
        (
            In(Path("subject"), ("ann", "bob")),
            Prefix(Path("object"), "/reports/"),
            Equal(Path("action"), "read"),
            Order(Path("subject", ("level",)), ">=", 3),
        )
    ),
    2,
    "managers read reports from inside",
)


def policy(rules: str = "{}", targets: str = "{}", more: str = "") -> str:
    return f"uid: x\neffect: deny\nrules: {rules}\ntargets: {targets}\n{more}"


def only(text: str) -> Policy:
    (found,) = read_policies(text)
    return found


@pytest.mark.parametrize("text", [JSON, YAML])
def test_json_and_yaml_say_the_same(text):
    assert only(text) == MEANT


def test_a_text_may_hold_many_policies():
    second = JSON.replace('"1"', '"2"')
    assert [each.id for each in read_policies(f"[{JSON}, {second}]")] == ["1", "2"]
    assert len(read_policies(YAML + "---" + YAML.replace('"1"', "two"))) == 2
    assert read_policies("") == ()


def test_an_empty_list_of_rules_is_false_and_an_empty_object_true():
    assert only(policy("{subject: []}")).condition == And((Or(()),))
    assert only(policy("{subject: {}}")).condition == And(())


def test_rules_in_a_list_are_alternatives():
    text = policy('{action: [{"$.a": {condition: Exists}}, {"$.b": {condition: NotExists}}]}')
    (either,) = only(text).condition.terms
    assert isinstance(either, Or)
    assert isinstance(either.terms[1].terms[0], Not)


@pytest.mark.parametrize(
    ("target", "test"),
    [
        ('"*"', None),
        ("ab*", Prefix(Path("subject"), "ab")),
        ('"a?b"', Glob(Path("subject"), "a?b")),
        ('["a*c", b]', Or((Glob(Path("subject"), "a*c"), Equal(Path("subject"), "b")))),
        ('[b, "*"]', None),
    ],
)
def test_targets_become_the_simplest_tests(target, test):
    condition = only(policy(targets=f"{{subject_id: {target}}}")).condition
    assert condition == And(() if test is None else (test,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"uid": "1",\n  "effect": }', "f:2:13: expecting value"),
        ('{"uid": "1",\n  "uid": "2"}', "f:2:3: `uid` is given twice in one object: which one is meant?"),
        ("uid: [x", "f:1:8: "),
        ("uid: &a x\neffect: *a", "f:2:9: aliases are not read: write it out"),
        ("uid: !!set {a}", "f:1:6: values of the kind `set` are not read"),
        ("1: x", "f:1:1: a name must be a string"),
        ('{"uid": NaN}', "f:1:1: `NaN` is no number that JSON has"),
        ("- 5", "f:1:3: expected `object`, got `int`"),
        ("uid: x\neffect: deny\nrules: {}", "f:1:1: object missing required field `targets`"),
        (policy(more="efect: x"), "f:5:1: there is no field `efect` here: did you mean `effect`?"),
        ("uid: x\neffect: maybe\nrules: {}\ntargets: {}", "f:2:1: `maybe` is none of `allow`, `deny`"),
        (policy(more="priority: -1"), "f:5:1: expected `int` >= 0"),
        (policy(more='priority: "1"'), "f:5:1: expected `int`, got `str`"),
        (policy("{subject: x}"), "f:3:9: expected `object | array`, got `str`"),
        (policy(targets="{resouce_id: x}"), "f:4:11: there is no field `resouce_id` here: did you mean `res"),
        (policy(more="owner: ann"), "f:5:1: there is no field `owner` here: there are `uid`, `rules`, "),
        (policy(targets="{action_id: []}"), "f:4:11: expected `array` of length >= 1"),
        (policy() + "---\n" + policy(), "f:6:1: there are two policies `x`: give each its own uid"),
    ],
)
def test_an_error_says_where_and_what_would_be_right(text, message):
    with pytest.raises(InvalidSyntax) as caught:
        read_policies(text, "f")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "condition", "column", "message"),
    [
        ("$.a", "condition: Eqals, value: x", 18, "there is no condition `Eqals`: did you mean `Equals`?"),
        ("$.a", 'condition: Gt, value: "5"', 33, "expected `int | float`, got `str`"),
        ("$.a", "condition: [Equals], value: 5", 18, "there is no condition `['Equals']`: did you"),
        ("$.a", "condition: Gt, value: true", 33, "expected `int | float`, got `bool`"),
        (
            "$.a",
            "condition: Gt, value: 5, valeu: 5",
            43,
            "there is no field `valeu` here: did you mean `value`?",
        ),
        ("$.a", "condition: Not, value: {condition: Gt}", 34, "object missing required field `value`"),
        ("$.a", "condition: AllOf, values: [{condition: X}]", 46, "there is no condition `X`"),
        ("$.a", "condition: IsIn, values: [1, null]", 47, "expected `bool | int | float"),
        ("$.a", "condition: AllIn, values: [[1]]", 45, "expected `bool | int | float"),
        ("$.a", "condition: CIDR, value: 10.0.0.1/8", 10, "`10.0.0.1/8` is no network: 10.0.0.1/8 has host"),
        ("$.a", 'condition: RegexMatch, value: "("', 10, "`(` is no regular expression"),
        (
            "$.a-b",
            "condition: Exists",
            10,
            "`$.a-b` would subtract: put a name with a hyphen in quotes, as in",
        ),
        ("$..a", "condition: Exists", 10, "`$..a` would search at every depth"),
        ("$.*", "condition: Exists", 10, "`$.*` is no plain path at `.*`: steps are"),
        ("a", "condition: Exists", 10, "`a` is no path: it starts at the root, as in `$.name`"),
        ("$.a", "condition: IsInAttribute, ace: subject, path: $.b + 1", 10, "`$.b + 1` is no plain path"),
        (
            "$.a",
            "condition: IsInAttribute, ace: object, path: $.b",
            44,
            "`object` is none of `subject`, `resource`",
        ),
    ],
)
def test_a_wrong_condition_is_found_in_its_line(path, condition, column, message):
    text = policy(f"\n  subject: {{$.ok: {{condition: Any}},\n         {path!r}: {{{condition}}}}}")
    with pytest.raises(InvalidSyntax) as caught:
        read_policies(text)
    assert (caught.value.line, caught.value.column) == (5, column)
    assert caught.value.problem.startswith(message)


def test_a_value_of_another_type_is_told_how_it_is_compared():
    for condition, advice in (
        ("Equals, value: true", "booleans are compared by `{condition: IsIn, values: [true]}`"),
        ("NotEquals, value: 1", "numbers are compared by `Eq` and `Neq`"),
        ("Eq, value: x", "texts are compared by `Equals` and `NotEquals`"),
    ):
        with pytest.raises(InvalidSyntax) as caught:
            read_policies(policy(f"{{subject: {{$.a: {{condition: {condition}}}}}}}"))
        assert caught.value.problem.endswith(advice)
    (allowed,) = read_policies(policy("{subject: {$.a: {condition: IsIn, values: [true]}}}"))
    assert allowed.condition == And((In(Path("subject", ("a",)), (True,)),))


def test_every_mistake_is_found_at_once():
    text = """
- uid: a
  efect: allow
  targets: {resouce_id: /x}
  rules: {}
- uid: b
  effect: maybe
  targets: {}
  rules: {}
- uid: c
  effect: allow
  targets: {}
  rules:
    subject:
      $.a: {condition: Eqals, value: x}
      $.b: {condition: Equals, value: 1}
    context: {a..b: {condition: Exists}}
"""
    with pytest.raises(InvalidSyntax) as caught:
        read_policies(text, "f")
    assert [each.line for each in (caught.value, *caught.value.others)] == [3, 4, 7, 15, 16, 17]


def test_conditions_nested_without_end_are_refused():
    condition = '{"condition": "Exists"}'
    for _ in range(60):
        condition = f'{{"condition": "AnyOf", "values": [{condition}]}}'
    with pytest.raises(InvalidSyntax, match="nested deeper than 40 levels"):
        read_policies(policy(f'{{subject: {{"$.a": {condition}}}}}'))


def test_decoded_json_is_read_too_and_names_the_field():
    with pytest.raises(InvalidPredicate, match=r"`rules.subject.\$.a.value` expected `str`"):
        read_policy(
            {
                "uid": "x",
                "effect": "allow",
                "targets": {},
                "rules": {"subject": {"$.a": {"condition": "Equals", "value": 5}}},
            }
        )


def test_yaml_words_that_older_parsers_take_for_booleans_and_times_are_strings():
    text = policy("{subject: {$.a: {condition: Equals, value: no}, $.b: {condition: Equals, value: 12:30}}}")
    assert [each.value for each in only(text).condition.terms] == ["no", "12:30"]

"""Where the fabric differs from py-abac on purpose: each difference, with what both do."""

from __future__ import annotations

import threading
import warnings

import pytest

from authz import Entity, Request
from authz.errors import InvalidPredicate
from pdp.abac import Algorithm, read_policy, reference
from pdp.abac.oracle import Oracle, OracleError

MISSING = object()


def policy(
    condition: dict, path: str = "$.a", effect: str = "allow", uid: str = "p", targets: dict | None = None
) -> dict:
    return {"uid": uid, "effect": effect, "targets": targets or {}, "rules": {"subject": {path: condition}}}


def asked(value: object = MISSING, **context: object) -> Request:
    return Request.of(Entity("ann", {} if value is MISSING else {"a": value}), "/x", "read", context)


def ours(request: Request, *policies: dict) -> bool:
    source = reference.Reference([read_policy(each) for each in policies], Algorithm.DENY_OVERRIDES)
    return reference.decide([source], request).allowed


def theirs(request: Request, *policies: dict) -> bool:
    return Oracle(policies, Algorithm.DENY_OVERRIDES).allows(request)


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("(?=.*a)b", "ba"),
        (r"(a)\1", "aa"),
        ("a*+b", "aab"),
        ("(?:a$)+", "a"),
        (r"a\Bb", "ab"),
        (r".\b.", "a-"),
        (r"(?a:\w)", "a"),
        ("[[:alpha:]]", "a]"),
        ("a{1001}", "a" * 1001),
    ],
)
def test_a_regular_expression_that_cannot_be_held_to_the_length_of_its_text_is_refused(pattern, value):
    matching = policy({"condition": "RegexMatch", "value": pattern})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what may become a nested class one day
        assert theirs(asked(value), matching)
        with pytest.raises(InvalidPredicate):
            ours(asked(value), matching)


def test_two_missing_attributes_are_not_equal():
    same = policy({"condition": "EqualsAttribute", "ace": "context", "path": "$.a"})
    assert theirs(asked(), same)
    assert not ours(asked(), same)
    assert ours(asked("x", a="x"), same)


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ({"condition": "IsNotIn", "values": ["x"]}, MISSING),
        ({"condition": "IsNotIn", "values": ["x"]}, ["x"]),
        ({"condition": "Not", "value": {"condition": "Equals", "value": "x"}}, MISSING),
        ({"condition": "Not", "value": {"condition": "NotEquals", "value": "x"}}, 5),
        ({"condition": "NotEqualsAttribute", "ace": "context", "path": "$.b"}, MISSING),
        ({"condition": "IsNotInAttribute", "ace": "context", "path": "$.c"}, MISSING),
        # The three of py-abac's own tests that are decided otherwise here.
        ({"condition": "NotEqualsAttribute", "ace": "context", "path": "$.missing"}, "test"),
        ({"condition": "NotEqualsAttribute", "ace": "context", "path": "$.d"}, "test"),
        ({"condition": "IsNotIn", "values": [1, 2, 3]}, None),
    ],
)
def test_a_negative_condition_is_false_of_what_is_missing_or_of_another_type(condition, value):
    request = asked(value, b="x", c=["x"], d={"what": "test"})
    assert theirs(request, policy(condition))
    assert not ours(request, policy(condition))


def test_an_id_is_named_by_a_word_of_its_own():
    author = {"condition": "EqualsAttribute", "ace": "context", "path": "$.author"}
    named, mistaken = policy(author, "id"), policy(author, "$.id")
    assert ours(asked(author="ann"), named)
    assert not ours(asked(author="bob"), named)
    assert not theirs(asked(author="ann"), mistaken)
    with pytest.raises(InvalidPredicate, match=r'write `id` for that, or `\$."id"` for an attribute'):
        read_policy(mistaken)
    in_context = {"uid": "p", "effect": "allow", "targets": {}, "rules": {"context": {"$.id": author}}}
    assert ours(asked(author="ann", id="ann"), in_context)


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ({"condition": "Gt", "value": 0}, True),
        ({"condition": "Eq", "value": 1}, True),
        ({"condition": "IsIn", "values": [1]}, True),
        ({"condition": "IsIn", "values": [True]}, 1),
        ({"condition": "AnyIn", "values": [0]}, [False]),
        ({"condition": "EqualsObject", "value": {"n": 1}}, {"n": True}),
    ],
)
def test_a_boolean_is_not_a_number(condition, value):
    assert theirs(asked(value), policy(condition))
    assert not ours(asked(value), policy(condition))


def test_whole_numbers_are_compared_exactly():
    exact = policy({"condition": "Eq", "value": 2**53 + 1})
    assert not theirs(asked(2**53 + 1), exact)
    assert ours(asked(2**53 + 1), exact)


@pytest.mark.parametrize("network", ["10.0.0.1/8", "10.0.0.0/33", "somewhere"])
def test_a_bad_network_is_refused_not_ignored(network):
    inside = policy({"condition": "CIDR", "value": network})
    assert not theirs(asked("10.0.0.1"), inside)
    with pytest.raises(InvalidPredicate, match="is no network"):
        read_policy(inside)


@pytest.mark.parametrize("path", ["$.a + $.b", "$.first-name", "$..a", "$.*", "a", "$.a[@.b > 1]", '$["a"]'])
def test_a_path_that_computes_is_refused(path):
    Oracle([policy({"condition": "Exists"}, path)], Algorithm.DENY_OVERRIDES)
    with pytest.raises(InvalidPredicate):
        read_policy(policy({"condition": "Exists"}, path))


@pytest.mark.parametrize("path", ["$.n", "$.t", "$.in", "$.is"])
def test_names_that_are_words_of_objectpath_are_names(path):
    exists = policy({"condition": "Exists"}, path)
    with pytest.raises(OracleError):
        Oracle([exists], Algorithm.DENY_OVERRIDES)
    assert ours(Request.of(Entity("ann", {path[2:]: 1}), "/x", "read"), exists)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$.a.b", "text"),  # py-abac: the string itself
        ("$.a.upper", "text"),  # py-abac: the method of a Python string
        ("$.a.b", [{"b": 1}]),  # py-abac: a generator over the list
        ("$.a[0]", "text"),  # py-abac: the first character
        ("$.a[0]", []),  # py-abac: the empty list
        ('$.a["b"]', {"c": 1}),  # py-abac: an empty list
    ],
)
def test_a_path_that_leads_nowhere_finds_nothing(path, value):
    exists = policy({"condition": "Exists"}, path)
    assert theirs(asked(value), exists)
    assert not ours(asked(value), exists)


def test_a_position_in_what_is_no_list_is_missing_and_no_breakdown():
    first = policy({"condition": "Exists"}, "$.a[0]")
    with pytest.raises(OracleError):
        theirs(asked(5), first)
    assert not ours(asked(5), first)


def test_one_policy_cannot_break_the_others():
    elsewhere = policy({"condition": "AnyIn", "values": ["x"]}, targets={"resource_id": "/elsewhere"})
    everyone = policy({"condition": "Any"}, uid="q")
    with pytest.raises(OracleError):
        theirs(asked([["unhashable"]]), elsewhere, everyone)
    assert ours(asked([["unhashable"]]), elsewhere, everyone)


@pytest.mark.parametrize("name", ["AllIn", "AnyIn"])
def test_a_list_or_object_among_the_values_of_a_set_relation_is_refused(name):
    nested = policy({"condition": name, "values": [["x"]]})
    with pytest.raises(OracleError):
        theirs(asked(["x"]), nested)
    with pytest.raises(InvalidPredicate):
        read_policy(nested)


@pytest.mark.parametrize(
    "change",
    [
        {"priority": "3"},
        {"priority": 1.9},
        {"rules": {"subject": {"$.a": {"condition": "Gt", "value": "5"}}}},
        {"rules": {"subject": {"$.a": {"condition": "Equals", "value": "x", "case_insensitive": "yes"}}}},
        {"uid": ""},
    ],
)
def test_a_field_of_the_wrong_type_is_refused_not_converted(change):
    wrong = policy({"condition": "Any"}) | change
    Oracle([wrong], Algorithm.DENY_OVERRIDES)
    with pytest.raises(InvalidPredicate):
        read_policy(wrong)


def test_null_is_missing_in_relations_too():
    member = policy({"condition": "IsInAttribute", "ace": "context", "path": "$.all"})
    assert theirs(asked(all=[None]), member)
    assert not ours(asked(all=[None]), member)


def test_deciding_changes_no_policy():
    """py-abac keeps the request's data on the policy while it decides, so threads mix up requests."""
    same = policy({"condition": "EqualsAttribute", "ace": "context", "path": "$.a"})
    oracle = Oracle([same], Algorithm.DENY_OVERRIDES)
    oracle.allows(asked("x", a="x"))
    kept = next(oracle._pdp._storage.get_for_target("", "", "")).rules.subject["$.a"].value
    assert kept == "x"

    source, wrong = reference.Reference([read_policy(same)], Algorithm.DENY_OVERRIDES), []

    def ask(value: str, other: str) -> None:
        wrong.extend(n for n in range(300) if reference.decide([source], asked(value, a=other)).allowed)

    threads = [threading.Thread(target=ask, args=pair) for pair in (("x", "y"), ("y", "x"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

"""Terms: their text, and matching."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdp.oasis.errors import InvalidTerm
from pdp.oasis.terms import Atom, Instance, Variable, ground, match, substitute
from tests.pdp.oasis import rules as some

D, P, ANY = Variable("d"), Variable("p"), Variable("_")
VALUES = ["a", "b", 1]


@given(some.instances)
def test_the_text_of_an_instance_is_read_back(instance):
    assert Instance.parse(str(instance)) == instance


def test_plain_words_need_no_quotes_and_everything_else_does():
    assert str(Instance("doctor", ("d1", "smith@nhs", 7))) == "doctor(d1, smith@nhs, 7)"
    assert str(Instance("x", ("7", "two words", ""))) == 'x("7", "two words", "")'
    assert str(Instance("clerk")) == "clerk"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7up",
        "doctor(",
        "doctor()",
        "doctor(d1",
        "doctor(d1))",
        "doctor(d 1)",
        'x("\\q")',
        "a b",
        "x(1.5)",
    ],
)
def test_what_is_no_instance_is_refused(text):
    with pytest.raises(InvalidTerm):
        Instance.parse(text)


@pytest.mark.parametrize("value", [True, 1.5, None, ["a"], 2**63, "\ud800"])
def test_parameters_are_strings_and_integers(value):
    with pytest.raises(InvalidTerm):
        Instance("x", (value,))


def test_a_variable_has_one_value_throughout():
    pattern = Atom("same", (D, D))
    assert match(pattern, Instance("same", ("a", "a")), {}) == {"d": "a"}
    assert match(pattern, Instance("same", ("a", "b")), {}) is None
    assert match(Atom("x", (D,)), Instance("x", ("b",)), {"d": "a"}) is None


def test_an_underscore_stands_for_anything_each_time_anew():
    assert match(Atom("x", (ANY, ANY)), Instance("x", ("a", "b")), {}) == {}


def test_a_number_is_not_its_text():
    assert match(Atom("x", (7,)), Instance("x", ("7",)), {}) is None


@given(
    st.lists(st.sampled_from([D, P, "a", "b", 1]), max_size=3).map(tuple),
    st.lists(st.sampled_from(VALUES), max_size=3).map(tuple),
)
def test_matching_finds_exactly_the_values_that_make_the_pattern_the_instance(args, params):
    pattern, instance = Atom("x", args), Instance("x", params)
    solutions = [
        values
        for values in (dict(zip("dp", each, strict=True)) for each in itertools.product(VALUES, repeat=2))
        if ground(pattern, values) == instance
    ]
    found = match(pattern, instance, {})
    if found is None:
        assert solutions == []
    else:
        assert {name: found[name] for name in pattern.variables} == found
        assert solutions == [each for each in solutions if found.items() <= each.items()]
        assert solutions


def test_substitution_leaves_what_is_not_bound():
    assert substitute(Atom("x", (D, P, 1)), {"d": "a"}) == Atom("x", ("a", P, 1))
    assert str(Atom("x", (D, "a", 1))) == 'x(d, "a", 1)'

"""Regular expressions: they find what Python's find, whatever the text, and take no longer than it is long."""

from __future__ import annotations

import re
import warnings
from re import _parser as parser

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from authz import Entity, Request
from authz.errors import InvalidPredicate
from authz.predicate import Path, Regex, compile_predicate, satisfiable
from authz.predicate.characters import LAST, members
from authz.predicate.regex import compile_search
from authz.predicate.terms import And, Equal

MAIL = Path("subject", ("mail",))
LETTERS = "abAkKsS1_-. \n\r\x1c\x85\u00a0\u017f\u0130\u0131\u212aéÉßẞǄǅǆσςΣµμ\u0345ι٣\u2028\ud800😀"
EVERYTHING = "".join(map(chr, range(LAST + 1)))

letters = st.sampled_from(LETTERS)
classes = st.builds(
    lambda negated, items: f"[{negated}{''.join(items)}]",
    st.sampled_from(["", "^"]),
    st.lists(
        st.sampled_from([r"\w", r"\W", r"\d", r"\D", r"\s", r"\S"])
        | letters.map(re.escape)
        | st.tuples(letters, letters).map(lambda pair: "-".join(map(re.escape, sorted(pair)))),
        min_size=1,
        max_size=3,
    ),
)
places = st.sampled_from(["^", "$", r"\A", r"\Z", r"\b"])
steps = letters.map(re.escape) | classes | st.sampled_from([r"\w", r"\W", r"\d", r"\s", r"\S", "."])


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds("{}{})".format, st.sampled_from(["(", "(?:", "(?i:", "(?-i:", "(?s:", "(?m:"]), inner)
    repeated = st.builds(
        "(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "*?", "??"])
    )
    return group | repeated | st.builds("{}|{}".format, inner, inner) | st.builds("{}{}".format, inner, inner)


patterns = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "(?i)", "(?m)", "(?s)", "(?a)", "(?ai)"]),
    places | st.just(""),
    st.recursive(steps | places, grown, max_leaves=6),
    places | st.just(""),
)


def compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what may become a nested class one day
        return re.compile(pattern)


@given(patterns, st.lists(st.text(letters, max_size=6), min_size=1, max_size=8))
@example("a$", ["a", "a\n", "a\n\n"])
@example(r"a\Z", ["a", "a\n"])
@example("(?m)a$", ["a\nb", "a\r\n"])
@example(r"\bk\b", ["k", "k.", "ék", "k٣", "-k-", "k\n"])
@example(r"\.\b", [".", ".é", "..", "a."])
@example(r"(?i)[ǅ-ǅ]", ["ǅ", "Ǆ", "ǆ"])
@settings(max_examples=100)
def test_what_is_found_is_what_python_finds(pattern, texts):
    oracle = compiled(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = compile_search(pattern)
    except InvalidPredicate:
        assume(False)
    for text in texts:
        assert (search(text) is not None) is (oracle.search(text) is not None), (pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w",
        r"\W",
        r"\d",
        r"\s",
        r"(?a)\w",
        r"(?a)\S",
        "(?i)k",
        "(?i)ſ",
        "(?ia)k",
        "(?i)[^s]",
        "(?i)[À-Þ]",
        "(?i)[ǅ]",
    ],
)
def test_a_class_has_the_very_characters_that_python_gives_it(pattern):
    tree = parser.parse(pattern)
    taken = members(*tree[0], tree.state.flags)
    found = [each.span() for each in re.finditer(f"(?:{tree_text(pattern)})+", EVERYTHING, tree.state.flags)]
    assert taken == tuple((start, end - 1) for start, end in found)


def tree_text(pattern: str) -> str:
    return pattern.partition(")")[2] if pattern.startswith("(?") else pattern


@pytest.mark.timeout(20)  # it would take longer than there is time
@pytest.mark.parametrize("pattern", ["(a+)+$", ".*.*.*@corp[.]com$", "(a|aa)+$", r"^(\w+\s?)*$"])
def test_whoever_asks_cannot_stall_a_decision_by_a_long_attribute(pattern):
    holds = compile_predicate(Regex(MAIL, pattern))
    assert not holds(Request.of(Entity("ann", {"mail": "a" * 200_000 + "!"}), "/docs/1", "read"))


@pytest.mark.timeout(20)
def test_nor_reasoning_about_a_predicate_by_a_long_constant():
    assert not satisfiable(And((Equal(MAIL, "a" * 200_000 + "!"), Regex(MAIL, "(a+)+$"))))


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (r"(a)\1", "`(a)\\1` refers to a group, which cannot be held to the length of the text"),
        ("(?=a)b", "looks ahead or behind"),
        ("(?<!a)b", "looks ahead or behind"),
        ("(a)?(?(1)b|c)", "refers to a group"),
        ("a*+b", "forbids to go back"),
        ("(?>a*)b", "forbids to go back"),
        ("a$b", "has `$` before something else: write `\\Z`"),
        (r"a\Bb", "has `\\B`: say by `\\w`"),
        (r".\b.", "put `(?a)` in front"),
        (r"(?a:\w)b", "changes its alphabet in the middle"),
        ("[[:alpha:]]", "has `[:alpha:]`, which is no class of Python's"),
        ("(", "is no regular expression: missing )"),
        ("a{2000}", "cannot be searched for: "),
        ("((a{500}){500}){500}", "takes too much to search for: repeat less"),
        ("(" * 5000 + ")" * 5000, "is no regular expression"),
    ],
)
def test_what_cannot_be_held_to_that_is_refused_with_what_to_write(pattern, problem):
    with pytest.raises(InvalidPredicate) as refused:
        compile_search(pattern)
    assert problem in str(refused.value)


def test_what_is_refused_of_any_alphabet_is_taken_of_ascii():
    assert compile_search(r"(?a).\b.")("a-")

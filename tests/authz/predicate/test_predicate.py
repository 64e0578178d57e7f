"""The algebra: its compiled meaning, its form on the wire and in text, and what is concluded from it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Decision, Entity, Request
from authz.errors import InvalidPredicate
from authz.predicate import (
    EVENT,
    FALSE,
    TRUE,
    And,
    Cidr,
    Equal,
    Exists,
    Glob,
    In,
    Kind,
    Literal,
    Not,
    Or,
    Order,
    Overlaps,
    Path,
    Predicate,
    Prefix,
    Regex,
    Relate,
    Subset,
    compile_predicate,
    conjunction,
    consistent,
    covers,
    disjoint,
    satisfiable,
)
from tests.authz import predicates as some
from tests.authz.meaning import holds

A = Path("subject", ("a",))
ASKED = Request.of(Entity("ann", {"a": 1}), "/docs/1", "read", {"a": "x"})


@given(some.predicates, some.requests)
@settings(max_examples=150)
def test_the_compiled_function_means_what_the_predicate_says(predicate, request):
    assert compile_predicate(predicate)(request) is holds(predicate, request)


@given(some.predicates)
def test_a_predicate_survives_the_wire(predicate):
    for codec in (msgspec.msgpack, msgspec.json):
        assert codec.decode(codec.encode(predicate), type=Predicate) == predicate


@given(st.lists(some.literals, max_size=3).map(tuple))
def test_a_decision_carries_its_certificate_over_the_wire(certificate):
    decision = Decision(True, certificate=certificate)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(decision), type=Decision) == decision


def test_constants_that_python_confuses_stay_apart():
    one, truth = Equal(A, 1), Equal(A, True)
    assert one != truth
    assert len({one, truth, Equal(A, 1.0)}) == 3
    assert compile_predicate(one)(ASKED)
    assert not compile_predicate(truth)(ASKED)


def test_the_name_of_an_entity_is_not_its_attribute_called_id():
    request = Request.of(Entity("ann", {"id": "bob"}), "x", "read")
    assert compile_predicate(Equal(Path("subject"), "ann"))(request)
    assert compile_predicate(Equal(Path("subject", ("id",)), "bob"))(request)


def test_an_event_is_filtered_by_its_own_attributes():
    location = Path("event", ("location",))
    assert compile_predicate(Equal(location, "Victoria"), EVENT)({"location": "Victoria"})
    assert not compile_predicate(Equal(location, "Victoria"), EVENT)({})


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (Regex(A, "("), "`(` is no regular expression"),
        (Cidr(A, "10.0.0.1/8"), "`10.0.0.1/8` is no network"),
        (Equal(Path("context"), "x"), "`context` has no id"),
        (Exists(Path("role", ("x",))), "`role` is unknown here"),
        (Order(A, "<", float("nan")), "NaN"),
    ],
)
def test_what_cannot_be_meant_is_refused(predicate, message):
    with pytest.raises(InvalidPredicate) as caught:
        compile_predicate(predicate)
    assert message in str(caught.value)


def test_a_predicate_nested_too_deep_is_refused():
    predicate = Exists(A)
    for _ in range(50):
        predicate = Not(predicate)
    with pytest.raises(InvalidPredicate, match="nested deeper"):
        compile_predicate(predicate)


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (Equal(Path("subject"), "ann"), 'subject.id == "ann"'),
        (Exists(Path("subject", ("id",))), 'exists subject["id"]'),
        (Exists(Path("context", ("a", "first-name", 0))), 'exists context.a["first-name"][0]'),
        (
            And((Exists(A), Or((Kind(A, "list"), Not(Exists(A)))))),
            "exists subject.a and (subject.a is list or not exists subject.a)",
        ),
        (Prefix(A, "x", True), 'subject.a starts with "x" ignoring case'),
        (Subset(A, ("a", True)), 'subject.a subset of ["a", true]'),
        (Relate(A, "subset", Path("object", ("a",))), "subject.a subset of object.a"),
        (TRUE, "true"),
        (Not(FALSE), "not false"),
    ],
)
def test_a_predicate_reads_as_text(predicate, text):
    assert str(predicate) == text


@given(some.predicates, some.predicates, st.lists(some.requests, min_size=12, max_size=12))
@settings(max_examples=60)
def test_covers_and_disjoint_are_never_wrong(one, other, requests):
    covered, apart = covers(one, other), disjoint(one, other)
    for request in requests:
        left, right = holds(one, request), holds(other, request)
        assert not (covered and right and not left)
        assert not (apart and left and right)


def asking(*values: object) -> list[Request]:
    return [Request.of(Entity("ann", {"a": value}), "x", "read") for value in values]


def after_prefix(text: str) -> str:
    """The first string after all that start so."""
    kept = text.rstrip("\U0010ffff")
    return kept and kept[:-1] + chr(ord(kept[-1]) + 1)


ONE_PATH = st.just(A)
# Some value in each gap that the constants of some.VALUES leave on the two lines.
WITNESSES = asking(
    *some.VALUES,
    *(each for text in some.TEXTS for each in (text + "\0", after_prefix(text))),
    *(number + step for number in some.NUMBERS for step in (-0.25, 0.25, 10**20, -(10**20))),
)
ADDRESSES = asking(*some.VALUES, "9.9.9.9", "10.0.0.2", "10.1.0.2", "10.2.0.1", "11.0.0.0", "::", "::2", "x")


def some_value_satisfies(literals: tuple[Literal, ...], witnesses: list[Request]) -> bool:
    return any(all(holds(each, request) for each in literals) for request in witnesses)


@given(st.lists(st.builds(Literal, some.ordered_on(ONE_PATH), st.booleans()), max_size=6).map(tuple))
@settings(max_examples=150)
def test_order_equality_membership_and_prefixes_are_decided_exactly(literals):
    assert consistent(literals) is some_value_satisfies(literals, WITNESSES)


@given(st.lists(st.builds(Literal, some.networks_on(ONE_PATH), st.booleans()), max_size=6).map(tuple))
@settings(max_examples=100)
def test_networks_are_decided_exactly(literals):
    assert consistent(literals) is some_value_satisfies(literals, ADDRESSES)


@given(st.lists(st.builds(Literal, some.comparisons_on(ONE_PATH), st.booleans()), max_size=5).map(tuple))
@settings(max_examples=100)
def test_literals_called_inconsistent_never_hold_together(literals):
    assert consistent(literals) or not some_value_satisfies(literals, WITNESSES + ADDRESSES)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (Order(A, "<", 5), Order(A, "<", 3)),
        (Order(A, "<=", 5), Order(A, "<", 5)),
        (Or((Order(A, "<", 5), Order(A, ">=", 5))), Kind(A, "number")),
        (Not(Equal(A, 1)), Equal(A, True)),
        (Prefix(A, "/docs"), Prefix(A, "/docs/a")),
        (Prefix(A, "/docs"), Equal(A, "/docs")),
        (Order(A, ">=", "a"), Prefix(A, "b")),
        (Not(Prefix(A, "x")), Prefix(A, "y")),
        (Cidr(A, "10.0.0.0/8"), Cidr(A, "10.1.0.0/16")),
        (Cidr(A, "10.0.0.0/8"), Equal(A, "10.0.0.1")),
        (Equal(A, "10.0.0.1"), Cidr(A, "10.0.0.1/32")),
        (In(A, ("a", "b", 1)), In(A, ("a", 1))),
        (In(A, ("a",)), And((In(A, ("a", "b")), Not(Equal(A, "b"))))),
        (Glob(A, "*x"), In(A, ("ax", "bx"))),
        (Prefix(A, "/d"), Glob(A, "/d*/x")),
        (Subset(A, ("a", "b")), Subset(A, ("a",))),
        (Overlaps(A, ("a", "b")), Overlaps(A, ("a",))),
        (Overlaps(A, ("a",)), And((Subset(A, ("a", "b")), Overlaps(A, ("a", "c"))))),
        (Exists(A), Relate(A, "==", Path("object", ("a",)))),
        (TRUE, Exists(A)),
        (Exists(A), FALSE),
    ],
)
def test_covers_knows(wide, narrow):
    assert covers(wide, narrow)
    assert disjoint(Not(wide), narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (Order(A, "<", 3), Order(A, "<", 5)),
        (Order(A, ">=", 5), Not(Order(A, "<", 5))),
        (Equal(A, 1), Equal(A, True)),
        (Prefix(A, "/docs/"), Prefix(A, "/docs")),
        (Cidr(A, "10.0.0.0/8"), Cidr(A, "::/0")),
        (Exists(A), TRUE),
    ],
)
def test_covers_does_not_invent(wide, narrow):
    assert not covers(wide, narrow)


@given(some.predicates, some.predicates, some.requests)
@settings(max_examples=100)
def test_a_conjunction_holds_exactly_when_both_do(one, other, request):
    assert holds(conjunction(one, other), request) is (holds(one, request) and holds(other, request))


def test_a_conjunction_keeps_only_what_adds_something():
    assert conjunction(Prefix(A, "/a"), Prefix(A, "/a/b")) == Prefix(A, "/a/b")
    assert conjunction(Order(A, "<", 5), Order(A, "<", 3), Exists(A)) == Order(A, "<", 3)
    assert conjunction(Prefix(A, "/a"), Prefix(A, "/b")) == FALSE
    assert conjunction(TRUE, TRUE) == TRUE
    assert not satisfiable(And((Equal(A, "x"), Equal(A, "y"))))


class TestStrangersRegexes:
    """About events anybody may ask by a regular expression, and whoever publishes chooses the text."""

    @pytest.mark.timeout(20)  # it would take longer than there is time
    @pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "a*a*a*a*a*a*b", "(.*)(.*)(.*)(.*)(.*)x"])
    def test_none_takes_longer_than_its_text_is_long(self, pattern):
        holds = compile_predicate(Regex(Path("event", ("plate",)), pattern), EVENT)
        assert not holds({"plate": "a" * 60_000 + "!"})

    def test_it_finds_what_it_should(self):
        holds = compile_predicate(Regex(Path("event", ("plate",)), "^AE[0-9]+ .*é$"), EVENT)
        assert holds({"plate": "AE05 XYé"})
        assert not holds({"plate": "BE05 XYé"})
        assert not holds({"plate": 5})
        assert not holds({})

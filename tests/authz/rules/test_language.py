"""The language of rules: what text means, and that what is written is read back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.errors import InvalidSyntax
from authz.predicate import (
    TRUE,
    And,
    Equal,
    Exists,
    In,
    Not,
    Or,
    Order,
    Path,
    Predicate,
    Prefix,
    Relate,
)
from authz.predicate.filter import opening, parse_filter, write_filter
from authz.rules import (
    Allow,
    AllowDuring,
    Asking,
    AutoReplay,
    Call,
    During,
    FluentRule,
    Moment,
    Point,
    Rate,
    Restrict,
    Rule,
    Scope,
    Transform,
    Trigger,
    parse_rules,
    parse_term,
    write_rule,
)

PAPER = """
-- figure 2 of the paper, and what it leaves out
audit: ALLOW REPLAY OF prescribe
    WHERE sub.prescriber_id IS NOT NULL AND credentials(user, auditor)
RESTRICT DELIVERY OF prescribe WHERE credentials(user, auditor) FILTER isControlled(drug_id)
hide: TRANSFORM EVENT prescribe TO audited.prescribe ON notify
    EXECUTE drop(patient_id) THEN bucket(amount, 'some', 100, 'much')
    WHERE credentials(user, auditor) AND NOT underInvestigation(prescriber_id) OVERRIDES a, b
AUTO REPLAY EVENT TYPE physical_status FROM now() - interval '2 hours' TO now()
    WHERE sub.patient_id = 'p4122' FILTER patient_id = 'p4122'
    ON emergency WHERE patient_id = 'p4122'
FLUENT underInvestigation(nurse) INITIATED BY opened(nurse_id) OR BY suspected(who) WHERE level > 2
    TERMINATED BY closed(nurse_id) SHARED
"""
AUDITOR = Call("credentials", (Path("user"), Path("event", ("auditor",))))
PATIENT = Equal(Path("event", ("patient_id",)), "p4122")


def test_the_rules_of_the_paper():
    audit, restrict, hide, replay, fluent = parse_rules(PAPER)
    asked = And((Exists(Path("sub", ("prescriber_id",))), AUDITOR.fact))
    assert audit == Rule(Allow("prescribe", Asking.REPLAY, asked), "audit")
    assert audit.place == (3, 1)
    drug = Call("isControlled", (Path("event", ("drug_id",)),))
    assert restrict == Rule(Restrict("prescribe", drug.fact, AUDITOR.fact))
    watched = Call("underInvestigation", (Path("event", ("prescriber_id",)),))
    steps = (
        Call("drop", (Path("event", ("patient_id",)),)),
        Call("bucket", (Path("event", ("amount",)), "some", 100, "much")),
    )
    where = And((AUDITOR.fact, Not(watched.fact)))
    assert hide.body == Transform("prescribe", "audited.prescribe", Point.NOTIFY, steps, where, ("a", "b"))
    assert replay.body == AutoReplay(
        "physical_status",
        "emergency",
        Moment(shift=-7200),
        Moment(),
        None,
        Equal(Path("sub", ("patient_id",)), "p4122"),
        PATIENT,
        PATIENT,
    )
    suspected = Trigger("suspected", ("who",), Order(Path("event", ("level",)), ">", 2))
    assert fluent.body == FluentRule(
        "underInvestigation",
        ("nurse",),
        (Trigger("opened", ("nurse_id",)), suspected),
        (Trigger("closed", ("nurse_id",)),),
        Scope.SHARED,
    )


@pytest.mark.parametrize("word", ["true", "TRUE", "True"])
def test_words_may_be_in_either_case(word):
    (rule,) = parse_rules(f"allow Subscription to t where urgent = {word}")
    assert rule.body == Allow("t", Asking.SUBSCRIPTION, Equal(Path("event", ("urgent",)), True))


def test_what_is_laid_out_reads_as_before_and_stays_as_it_is():
    rules = parse_rules(PAPER)
    text = "\n".join(map(write_rule, rules))
    assert parse_rules(text) == rules
    assert "\n".join(map(write_rule, parse_rules(text))) == text
    assert text.startswith(
        "audit: ALLOW REPLAY OF prescribe\n    WHERE sub.prescriber_id IS NOT NULL AND cred"
    )


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("ALLOW prescribe", 1, 7, "expected `REPLAY DURING` or `SUBSCRIPTION TO` or `REPLAY OF`"),
        ("ALLOW REPLAY OF\n", 1, 16, "expected a name"),
        ("RESTRICT DELIVERY OF a WHERE x = 1", 1, 35, "`FILTER`"),
        ("TRANSFORM EVENT a TO b ON arrival EXECUTE drop(x)", 1, 27, "`publish` or `notify`"),
        ("AUTO REPLAY EVENT TYPE a\nFROM now() - interval '2 moons' ON b", 2, 23, "a span such as '2 hours'"),
        ("AUTO REPLAY EVENT TYPE a FROM 'yesterday' ON b", 1, 31, "a time such as"),
        ("FLUENT f(x) INITIATED BY a() TERMINATED BY b(y)", 1, 1, "about 1 things, and `a` says 0"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, line, column, part):
    with pytest.raises(InvalidSyntax) as caught:
        parse_rules(text, "care.rules")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert part in str(caught.value)
    assert str(caught.value).startswith("care.rules:")


names = st.from_regex(r"[a-z][a-z0-9_]{2,6}", fullmatch=True).map(lambda name: f"x{name}")
whole = st.integers(-(2**63), 2**63 - 1)
constants = st.text(max_size=6) | whole | st.booleans() | st.floats(-1e6, 1e6)
attributes = st.lists(names, min_size=1, max_size=2).map(lambda keys: Path("event", tuple(keys)))
given_paths = st.tuples(st.sampled_from(["user", "sub", "context"]), names).map(lambda p: Path(p[0], (p[1],)))
paths = attributes | given_paths | st.just(Path("user"))
calls = st.recursive(
    st.builds(Call, names, st.lists(paths | constants, max_size=3).map(tuple)),
    lambda inner: st.builds(Call, names, st.lists(paths | inner, max_size=2).map(tuple)),
    max_leaves=3,
)
moments = st.builds(Moment, shift=st.integers(-(10**7), 10**7))
comparisons = st.one_of(
    st.builds(Equal, paths, constants),
    st.builds(Order, paths, st.sampled_from(["<", "<=", ">", ">="]), whole | st.text(max_size=5)),
    st.builds(In, paths, st.lists(constants, min_size=1, max_size=3).map(tuple)),
    st.builds(Exists, paths),
    st.builds(Prefix, paths, st.text(max_size=5)),
    st.builds(Relate, paths, st.sampled_from(["==", "<", ">="]), paths | moments.map(lambda each: each.path)),
    calls.map(lambda call: call.fact),
)
conditions: st.SearchStrategy[Predicate] = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda terms: And(tuple(terms))),
        st.lists(inner, min_size=2, max_size=3).map(lambda terms: Or(tuple(terms))),
        inner.map(Not),
        st.builds(lambda path, value: And((Exists(path), Not(Equal(path, value)))), paths, constants),
    ),
    max_leaves=6,
)
opened = conditions.map(opening)
"""Conditions by which something is let through."""
types = st.lists(names, max_size=2).map(lambda more: ".".join(["t", *more]))
labels = st.lists(names, max_size=2).map(tuple)
whens = st.none() | moments | st.integers(0, 4 * 10**9).map(float)
triggers = st.lists(
    st.builds(Trigger, types, st.just(("a", "b")), st.just(TRUE) | conditions), min_size=1, max_size=2
)
bodies = st.one_of(
    st.builds(AllowDuring, names, st.just(TRUE) | opened),
    st.builds(Allow, types, st.sampled_from(Asking), st.just(TRUE) | opened),
    st.builds(
        Allow, types, st.just(Asking.REPLAY), opened,
        st.builds(Rate, st.integers(1, 10**6), st.integers(1, 10**6)),
    ),
    st.builds(Restrict, types, opened, st.just(TRUE) | conditions, labels),
    st.builds(
        Transform, types, types, st.sampled_from(Point), st.lists(calls, min_size=1, max_size=3).map(tuple),
        st.just(TRUE) | conditions, labels,
    ),
    st.builds(
        AutoReplay, types, types, whens, whens, st.none() | st.builds(During, calls, st.booleans()),
        st.just(TRUE) | opened, st.just(TRUE) | opened, st.just(TRUE) | opened,
    ),
    st.builds(
        FluentRule, names, st.just(("p", "q")), triggers.map(tuple), triggers.map(tuple), st.sampled_from(Scope)
    ),
)  # fmt: skip


@given(st.builds(Rule, bodies, st.just("") | names))
def test_every_rule_is_read_back_as_it_was(rule):
    assert parse_rules(write_rule(rule)) == (rule,)


@given(opened)
def test_a_filter_is_read_back_as_it_was(condition):
    rule = Rule(Allow("t", Asking.REPLAY, condition))
    assert parse_rules(f"ALLOW REPLAY OF t WHERE {write_filter(condition)}") == (rule,)


@given(st.builds(Moment, calls, st.integers(-(10**7), 10**7)))
def test_a_term_is_read_back_as_it_was(term):
    assert parse_term(str(term)) == term


def test_an_empty_filter_is_written_as_nothing():
    assert write_filter(parse_filter("")) == ""


def test_what_was_expected_is_said_in_words_wherever_a_text_breaks_off():
    text = PAPER.replace("-- figure 2 of the paper, and what it leaves out", "")
    for word in re.finditer(r"\S+", text):
        with pytest.raises(InvalidSyntax) as caught:
            parse_rules(text[: word.start()] + "§", "x.rules")
        assert "\\" not in str(caught.value)


def test_what_is_missing_opens_nothing_and_escapes_no_restriction():
    allow, restrict, transform = parse_rules(
        "ALLOW SUBSCRIPTION TO t WHERE NOT (ward = 'a' AND NOT ward = user.ward)\n"
        "RESTRICT DELIVERY OF t WHERE NOT ward = 'a' FILTER NOT grade IN (1, 2)\n"
        "TRANSFORM EVENT t TO u ON notify EXECUTE drop(name) WHERE NOT ward = 'a'"
    )
    ward, of_user, grade = Path("event", ("ward",)), Path("user", ("ward",)), Path("event", ("grade",))
    missing = Not(Equal(ward, "a"))
    assert allow.body.where == Or((And((Exists(ward), missing)), Relate(ward, "==", of_user)))
    assert restrict.body.where == transform.body.where == missing
    assert restrict.body.filter == And((Exists(grade), Not(In(grade, (1, 2)))))

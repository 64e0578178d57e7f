"""A certificate holds of the request it was made for, and whatever else it holds of gets the same effect."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Decision, Entity, Request
from authz.decision import Effect
from authz.predicate import (
    And,
    Certificate,
    Equal,
    Exists,
    In,
    Literal,
    Not,
    Or,
    Order,
    Overlaps,
    Path,
    Prefix,
    Subset,
    compile_predicate,
)
from pdp.abac import Algorithm, Policy, read_policy, reference
from pdp.abac.reference import Reference
from pdp.abac.source import AbacSource
from pdp.engine.certify import MOST
from pdp.engine.engine import Engine
from tests.authz import predicates as some
from tests.pdp.cases import Cases
from tests.pdp.engine.test_engine import policies as some_policies

SUBJECT, OBJECT, ACTION = Path("subject"), Path("object"), Path("action")
DEPT, ROLES = Path("subject", ("dept",)), Path("subject", ("roles",))


def holds(certificate: Certificate, request: Request) -> bool:
    return all(compile_predicate(each.predicate)(request) for each in certificate)


def mixed(one: Request, other: Request) -> list[Request]:
    """Requests between the two, which a certificate of the one often still holds of."""
    return [
        Request(other.subject, one.object, one.action, one.context),
        Request(one.subject, other.object, one.action, one.context),
        Request(one.subject, one.object, other.action, one.context),
        Request(one.subject, one.object, one.action, other.context),
        Request(Entity(other.subject.id, one.subject.attributes), one.object, one.action, one.context),
        Request(one.subject, Entity(other.object.id, one.object.attributes), one.action, one.context),
        other,
    ]


def check(policies: list[Policy], algorithm: Algorithm, requests: list[Request]) -> int:
    """Assert soundness for every certificate, and say how often one was reused."""
    engine = Engine([AbacSource(policies, algorithm)], certify=True)
    source, reused = Reference(policies, algorithm), 0
    for request in requests:
        decision = engine.evaluate(request)
        assert decision.certificate is not None
        assert holds(decision.certificate, request)
        for other in (mix for each in requests for mix in mixed(request, each)):
            if holds(decision.certificate, other):
                specified = reference.decide([source], other)
                assert (specified.allowed, specified.reason) == (decision.allowed, decision.reason)
                reused += other != request
    return reused


@given(some_policies, st.sampled_from(Algorithm), st.lists(some.requests, min_size=4, max_size=4))
@settings(max_examples=25)
def test_whatever_a_certificate_holds_of_gets_that_effect(policies, algorithm, requests):
    check(policies, algorithm, requests)


def test_certificates_of_policies_in_use_are_sound_and_often_reused():
    reused = 0
    for seed in range(18):
        cases = Cases(seed)
        policies = [read_policy(each) for each in cases.policies(60 if seed % 2 else 10)]
        reused += check(policies, list(Algorithm)[seed % 3], list(cases.requests(8)))
    assert reused > 1000


@given(some_policies, some_policies, st.lists(some.requests, min_size=4, max_size=4))
@settings(max_examples=25)
def test_certificates_of_several_sources_together_are_sound(one, two, requests):
    engine = Engine([AbacSource(each, Algorithm.DENY_OVERRIDES) for each in (one, two)], certify=True)
    sources = [Reference(each, Algorithm.DENY_OVERRIDES) for each in (one, two)]
    for request in requests:
        decision = engine.evaluate(request)
        assert decision.certificate is not None
        assert holds(decision.certificate, request)
        for other in (mix for each in requests for mix in mixed(request, each)):
            if holds(decision.certificate, other):
                assert reference.decide(sources, other).allowed == decision.allowed


def certified(policies: list[Policy], request: Request) -> Decision:
    return Engine([AbacSource(policies, Algorithm.DENY_OVERRIDES)], certify=True).evaluate(request)


def allow(name: str, *terms) -> Policy:
    return Policy(name, Effect.ALLOW, And(terms))


def deny(name: str, *terms) -> Policy:
    return Policy(name, Effect.DENY, And(terms))


ASKED = Request.of(Entity("ann", {"dept": "sales", "roles": ["a", "b"]}), "/docs/a/1", "read")


def test_an_allow_is_certified_by_its_own_literals_and_one_against_each_deny():
    policies = [
        allow("p", Prefix(OBJECT, "/docs/"), Equal(DEPT, "sales")),
        deny("q", Equal(SUBJECT, "eve"), Equal(ACTION, "write")),
        deny("elsewhere", Prefix(OBJECT, "/hr/"), Equal(ACTION, "read")),
    ]
    assert list(map(str, certified(policies, ASKED).certificate)) == [
        'object.id starts with "/docs/"',
        'subject.dept == "sales"',
        'not subject.id == "eve"',
    ]


def test_a_deny_needs_no_more_than_itself():
    policies = [
        deny("p", Equal(ACTION, "read")),
        deny("q", Exists(DEPT)),
        *(allow(f"a{n}") for n in range(9)),
    ]
    assert certified(policies, ASKED).certificate == (Literal(Equal(ACTION, "read")),)


def test_one_literal_covers_many_rivals():
    levels = Path("context", ("level",))
    denies = [deny(f"d{n}", Equal(ACTION, "write"), Order(levels, ">", n), Exists(DEPT)) for n in range(6)]
    certificate = certified([allow("p", Exists(DEPT)), *denies], ASKED).certificate
    assert list(map(str, certificate)) == ["exists subject.dept", 'not action.id == "write"']


@pytest.mark.parametrize(
    ("denies", "literal"),
    [
        (
            [deny(f"d{n}", Equal(SUBJECT, f"u{n}")) for n in range(12)],
            Literal(In(SUBJECT, tuple(f"u{n}" for n in range(12))), False),
        ),
        ([deny(f"d{n}", Equal(SUBJECT, f"u{n}")) for n in range(50)], Literal(Equal(SUBJECT, "ann"))),
        (
            [deny(f"d{n}", Prefix(OBJECT, f"/docs/b{n}/")) for n in range(50)],
            Literal(Prefix(OBJECT, "/docs/a")),
        ),
        (
            [deny(f"d{n}", Prefix(OBJECT, f"/docs/a/1{n}")) for n in range(50)],
            Literal(Equal(OBJECT, "/docs/a/1")),
        ),
        ([deny(f"d{n}", Overlaps(ROLES, (f"r{n}",))) for n in range(50)], Literal(Subset(ROLES, ("a", "b")))),
        (
            [deny(f"d{n}", Overlaps(ROLES, (f"r{n}",))) for n in range(9)],
            Literal(Overlaps(ROLES, tuple(f"r{n}" for n in range(9))), False),
        ),
        (
            [deny(f"d{n}", Equal(Path("context", ("zone",)), f"z{n}")) for n in range(50)],
            Literal(Exists(Path("context", ("zone",))), False),
        ),
    ],
)
def test_many_rivals_are_excluded_by_one_literal_on_what_tells_them_apart(denies, literal):
    assert certified([allow("p"), *denies], ASKED).certificate == (literal,)


def test_only_the_branch_that_made_it_true_is_certified():
    policy = allow(
        "p", Or((Equal(DEPT, "it"), Equal(ACTION, "read"))), Not(And((Exists(DEPT), Equal(DEPT, "hr"))))
    )
    assert list(map(str, certified([policy], ASKED).certificate)) == [
        'action.id == "read"',
        'not subject.dept == "hr"',
    ]


def test_without_being_asked_there_is_no_certificate():
    engine = Engine([AbacSource([allow("p")], Algorithm.DENY_OVERRIDES)])
    assert engine.evaluate(ASKED).certificate is None


def test_a_decision_stands_without_its_certificate(monkeypatch):
    def broken(self, entry):
        raise RecursionError

    engine = Engine([AbacSource([allow("p")], Algorithm.DENY_OVERRIDES)], certify=True)
    monkeypatch.setattr(AbacSource, "_plan", broken)
    decision = engine.evaluate(ASKED)
    assert (decision.allowed, decision.certificate) == (True, None)


LEVEL, NOTE = Path("context", ("level",)), Path("context", ("note",))


@pytest.mark.parametrize(
    ("denies", "context"),
    [
        ([deny(f"d{n}", Order(LEVEL, ">", n)) for n in range(MOST + 1)], {}),
        (
            [
                deny(f"d{n}", Equal(ACTION, "read"), Equal(DEPT, "sales"), Order(LEVEL, ">", n))
                for n in range(900)
            ],
            {},
        ),
        ([deny(f"d{n}", Equal(NOTE, f"{n}")) for n in range(300)], {"note": "x" * 1000}),
        ([deny(f"d{n}", *(Order(LEVEL, ">", n * 10 + m) for m in range(10))) for n in range(60)], {}),
    ],
)
def test_rivals_beyond_counting_leave_the_decision_without_certificate(denies, context):
    request = Request(ASKED.subject, ASKED.object, ASKED.action, context)
    decision = certified(
        [allow("p"), *denies, *(deny(f"e{n}", Equal(ACTION, f"a{n}")) for n in range(99))], request
    )
    assert (decision.allowed, decision.certificate) == (True, None)

"""The engine decides what the reference decides, whatever the policies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Decision, Entity, Reason, Request
from authz.decision import Effect
from authz.predicate import FALSE, TRUE, And, Equal, Order, Path, Relate
from pdp.abac import Algorithm, Policy, reference
from pdp.abac.reference import Reference
from pdp.abac.source import AbacSource
from pdp.engine.engine import SLICE, Engine
from pdp.engine.source import SILENT, Verdict
from tests.authz import predicates as some

policies = st.lists(
    st.builds(Policy, st.just(""), st.sampled_from(Effect), some.predicates, st.integers(0, 3)), max_size=25
).map(
    lambda found: [
        Policy(f"p{n}", each.effect, each.condition, each.priority) for n, each in enumerate(found)
    ]
)

ANYONE = Request.of("ann", "/x", "read")


def outcome(decision: Decision) -> tuple[bool, Reason, list[str]]:
    return decision.allowed, decision.reason, sorted(decision.policies)


@given(policies, st.sampled_from(Algorithm), st.lists(some.requests, min_size=5, max_size=5))
@settings(max_examples=40)
def test_the_engine_decides_what_the_reference_decides(policies, algorithm, requests):
    engine, source = Engine([AbacSource(policies, algorithm)]), Reference(policies, algorithm)
    for request in requests:
        assert outcome(engine.evaluate(request)) == outcome(reference.decide([source], request))


@given(policies, policies, some.requests)
def test_several_sources_are_combined_as_the_reference_combines_them(some_policies, others, request):
    engine = Engine([AbacSource(each, Algorithm.ALLOW_OVERRIDES) for each in (some_policies, others)])
    sources = [Reference(each, Algorithm.ALLOW_OVERRIDES) for each in (some_policies, others)]
    assert outcome(engine.evaluate(request)) == outcome(reference.decide(sources, request))


def test_nothing_applicable_is_a_deny_that_says_so():
    for sources in ([], [AbacSource([], Algorithm.DENY_OVERRIDES)]):
        assert Engine(sources, 7).evaluate(ANYONE) == Decision(False, Reason.NO_POLICY, epoch=7)


def test_a_decision_names_every_determining_policy_once():
    roles = Path("subject", ("roles",))
    allows = [Policy(f"a{n}", Effect.ALLOW, TRUE) for n in range(3)]
    denies = [Policy("d", Effect.DENY, Equal(Path("object"), "/y")), Policy("e", Effect.DENY, FALSE)]
    engine = Engine([AbacSource(allows + denies, Algorithm.DENY_OVERRIDES)])
    assert sorted(engine.evaluate(ANYONE).policies) == ["a0", "a1", "a2"]
    assert engine.evaluate(Request.of("ann", "/y", "read")).policies == ("d",)
    twice = [Policy(f"r{n}", Effect.ALLOW, some.Overlaps(roles, (f"x{n}", f"y{n}"))) for n in range(20)]
    request = Request.of(Entity("ann", {"roles": ["x1", "y1", "x1"]}), "/x", "read")
    assert Engine([AbacSource(twice, Algorithm.DENY_OVERRIDES)]).evaluate(request).policies == ("r1",)


def deep(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("algorithm", Algorithm)
def test_a_policy_that_cannot_be_evaluated_fails_safe_and_alone(algorithm):
    a, b = Path("context", ("a",)), Path("context", ("b",))
    broken = Relate(a, "==", b)
    request = Request.of("ann", "/x", "read", {"a": deep(5000), "b": deep(5000)})
    allow, deny = Policy("allow", Effect.ALLOW, broken, 1), Policy("deny", Effect.DENY, broken, 1)
    other = Policy("other", Effect.ALLOW, TRUE)
    for policies in ([allow], [deny], [allow, other], [deny, other], [allow, deny, other]):
        decision = Engine([AbacSource(policies, algorithm)]).evaluate(request)
        expected = reference.decide([Reference(policies, algorithm)], request)
        assert (decision.allowed, decision.policies) == (expected.allowed, expected.policies)
    assert not Engine([AbacSource([allow], algorithm)]).evaluate(request).allowed
    assert Engine([AbacSource([allow, other], algorithm)]).evaluate(request).allowed


def test_a_broken_policy_does_not_touch_requests_that_do_not_break_it():
    broken = Policy(
        "b", Effect.DENY, And((Equal(Path("object"), "/y"), Order(Path("context", ("n",)), "<", 3)))
    )
    engine = Engine([AbacSource([broken, Policy("a", Effect.ALLOW, TRUE)], Algorithm.DENY_OVERRIDES)])
    assert engine.evaluate(ANYONE) == Decision(True, policies=("a",))


class Failing:
    name = "failing"

    def judge(self, request: Request, certify: bool = False) -> Verdict:
        raise RuntimeError


def test_a_source_that_breaks_down_denies():
    allowing = AbacSource([Policy("a", Effect.ALLOW, TRUE)], Algorithm.DENY_OVERRIDES)
    decision = Engine([allowing, Failing()], 3).evaluate(ANYONE)
    assert (decision.allowed, decision.reason, decision.epoch) == (False, Reason.POLICY_ERROR, 3)


class Telling:
    """A source that says what it is told to."""

    name = "telling"

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict

    def judge(self, request: Request, certify: bool = False) -> Verdict:
        return self.verdict


def test_expiry_and_detail_of_a_verdict_reach_the_decision():
    verdict = Verdict(Effect.ALLOW, ("r",), None, 12.5)
    for sources in ([Telling(verdict)], [Telling(verdict), Telling(SILENT)]):
        decision = Engine(sources, 4).evaluate(ANYONE)
        assert (decision.allowed, decision.policies, decision.epoch, decision.expires) == (
            True,
            ("r",),
            4,
            12.5,
        )


async def test_many_requests_are_decided_in_order():
    policies = [Policy("a", Effect.ALLOW, Equal(Path("subject"), "ann"))]
    engine = Engine([AbacSource(policies, Algorithm.DENY_OVERRIDES)])
    requests = [Request.of("ann" if n % 3 else "bob", "/x", "read") for n in range(3 * SLICE + 5)]
    decisions = await engine.decide_many(requests)
    assert [each.allowed for each in decisions] == [each.subject.id == "ann" for each in requests]
    assert await engine.decide(requests[0]) == decisions[0]


async def test_requests_of_which_the_same_is_said_get_one_decision():
    policies = [Policy("a", Effect.ALLOW, Equal(Path("subject"), "ann"))]
    engine = Engine([AbacSource(policies, Algorithm.DENY_OVERRIDES)])
    one, other, bob = await engine.decide_many(
        [Request.of(who, "/x", "read") for who in ("ann", "ann", "bob")]
    )
    assert one is other
    assert bob == Decision(False, Reason.NO_POLICY)

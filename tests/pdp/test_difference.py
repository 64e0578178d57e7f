"""Caches may rely on what a difference says: whatever lies outside its effects is decided as before."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Request
from authz.predicate import FALSE, TRUE, And, Equal, Not, Or, Path, Prefix, Relate, compile_predicate
from pdp.abac.policy import Algorithm, Policy
from pdp.abac.reader import read_policy
from pdp.difference import Difference, widen
from pdp.manifest import Manifest
from pdp.policy_set import PolicySet
from pdp.source import Effect
from tests.pdp.cases import Cases

ROLE = Path("subject", ("role",))


def policies(*several: Policy, **manifest: object) -> PolicySet:
    return PolicySet(Manifest(**manifest), several)


def policy(name: str, effect: Effect = Effect.ALLOW, subject: str = "ann", **more) -> Policy:
    return Policy(name, effect, Equal(Path("subject"), subject), **more)


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_outside_the_effects_the_same_policies_decide_the_same(seed):
    cases, pick = Cases(seed), random.Random(seed)
    before = [read_policy(each) for each in cases.policies()]
    after = [each for each in before if pick.random() < 0.8]
    after = [
        msgspec.structs.replace(each, effect=Effect.DENY, priority=each.priority + 1)
        if pick.random() < 0.2
        else each
        for each in after
    ]
    after.append(read_policy(cases.policy("new")))
    algorithm = pick.choice(list(Algorithm))
    old, new = (policies(*several, algorithm=algorithm) for several in (before, after))
    difference = Difference.between(old, new)
    wheres = [compile_predicate(effect.where) for effect in difference.effects]
    assert not difference.whole
    old_engine, new_engine = old.engine(), new.engine()
    for request in cases.requests(40):
        if not any(where(request) for where in wheres):
            was, is_ = old_engine.evaluate(request), new_engine.evaluate(request)
            assert (was.allowed, was.reason, set(was.policies)) == (
                is_.allowed,
                is_.reason,
                set(is_.policies),
            )


def test_a_difference_names_what_was_added_altered_and_removed():
    old = policies(policy("same"), policy("gone"), policy("other"))
    new = policies(policy("same", description="said better"), policy("other", Effect.DENY), policy("new"))
    difference = Difference.between(old, new)
    assert (difference.added, difference.altered, difference.removed) == (("new",), ("other",), ("gone",))
    assert str(difference) == "1 added, 1 altered, 1 removed"


def test_another_description_changes_nothing():
    difference = Difference.between(policies(policy("a")), policies(policy("a", description="new words")))
    assert difference.nothing
    assert str(difference) == "nothing changes"


def test_both_the_old_and_the_new_reach_of_a_policy_are_touched():
    difference = Difference.between(
        policies(policy("a", subject="ann")), policies(policy("a", subject="bob"))
    )
    wheres = [compile_predicate(each.where) for each in difference.effects]
    for name, touched in (("ann", True), ("bob", True), ("eve", False)):
        assert any(where(Request.of(name, "/", "read")) for where in wheres) is touched


def test_what_bears_on_everything_touches_everything():
    one = policies(policy("a"))
    assert Difference.between(None, one).whole
    assert Difference.between(one, policies(policy("a"), algorithm=Algorithm.ALLOW_OVERRIDES)).whole
    assert Difference.between(one, policies(policy("a"), provided=("subject.role",))).whole


def test_too_many_effects_are_the_whole():
    many = policies(*(policy(f"p{n}", subject=f"s{n}") for n in range(1000)))
    difference = Difference.between(policies(), many)
    assert difference.whole
    assert difference.effects == ()


def test_conditions_that_only_a_pdp_can_test_are_left_out():
    condition = And((Equal(ROLE, "clerk"), Prefix(Path("object"), "/a")))
    provided = {"provided": ("subject.role",)}
    new = policies(Policy("a", Effect.ALLOW, condition), **provided)
    (effect,) = Difference.between(policies(**provided), new).effects
    where = compile_predicate(effect.where)
    assert where(Request.of("ann", "/a/1", "read"))
    assert not where(Request.of("ann", "/b", "read"))


def test_to_widen_is_to_hold_at_least_wherever_it_may():
    hidden = [ROLE]
    tests = (Equal(ROLE, "x"), Relate(Path("object", ("owner",)), "==", Path("subject", ("role", "of"))))
    for test in tests:
        assert widen(test, hidden) == TRUE
        assert widen(Not(test), hidden) == Not(FALSE)
        assert widen(Or((Not(Not(test)),)), hidden) == Or((Not(Not(TRUE)),))
    other = Equal(Path("subject", ("roles",)), "x")
    assert widen(other, hidden) == other

"""Caches may rely on what a difference says: whatever lies outside its effects is decided as before."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Entity, Request
from authz.change import Granted, Relabelled, RelabelledBelow, Revoked
from authz.decision import Effect
from authz.predicate import And, Equal, Path, Prefix, compile_predicate
from pdp.abac.policy import Algorithm, Policy
from pdp.abac.reader import read_policy
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.manifest import Manifest
from pdp.bundle.policy_set import PolicySet
from pdp.engine.engine import Engine
from pdp.lint.difference import Difference
from tests.pdp.cases import Cases

ROLE = Path("subject", ("role",))


def policies(*several: Policy, **manifest: object) -> PolicySet:
    return PolicySet(Manifest(**manifest), several)


def policy(name: str, effect: Effect = Effect.ALLOW, subject: str = "ann", **more) -> Policy:
    return Policy(name, effect, Equal(Path("subject"), subject), **more)


def same(one: Engine, other: Engine, request: Request) -> bool:
    """Whether the same policies decide the same."""
    was, is_ = one.evaluate(request), other.evaluate(request)
    return (was.allowed, was.reason, set(was.policies)) == (is_.allowed, is_.reason, set(is_.policies))


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


def read(**files: str) -> PolicySet:
    return PolicySet.read(Bundle.of(File(name.replace("_", "."), text) for name, text in files.items()))


RULES = [
    '{name}: a |- privilege(read, "/x")',
    '{name}: b |- privilege(read|write, "/x")',
    '{name}: b |- privilege(*, "/x")',
    '{name}: c |- privilege(write, "/{{p}}")',
    '{name}: a, [object.open == true] |- privilege(read, "/x")',
    '{name}: p(n) |- privilege(read, "/{{n}}")',
    'a |- privilege(write, "/y")',
]
rule_sets = st.builds(
    lambda rules, seniority: (
        "role a, b, c, p(n)\n"
        + "\n".join(rule.format(name=f"r{number}") for number, rule in rules)
        + f"\n{seniority}\n"
    ),
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(RULES)), max_size=5, unique_by=lambda each: each[0]
    ),
    st.sampled_from(["", "", "a > b", "p(n) > c", "a > b\nb > c"]),
)
role_requests = st.builds(
    lambda roles, thing, action, open_: Request.of(
        Entity("ann", {"roles": roles}), Entity(thing, {"open": open_}), action
    ),
    st.lists(st.sampled_from(["a", "b", "c", "p(x)", "p(y)"]), max_size=3),
    st.sampled_from(["/x", "/y"]),
    st.sampled_from(["read", "write", "else"]),
    st.booleans(),
)


@settings(deadline=None, max_examples=60)
@given(rule_sets, rule_sets, st.lists(role_requests, min_size=5, max_size=20))
def test_outside_the_effects_the_same_role_rules_decide_the_same(before, after, requests):
    old, new = read(r_oasis=before), read(r_oasis=after)
    difference = Difference.between(old, new)
    wheres = [compile_predicate(effect.where) for effect in difference.effects]
    was, is_ = old.engine(), new.engine()
    for request in requests:
        if not difference.whole and not any(where(request) for where in wheres):
            assert same(was, is_, request)
    for effect in difference.effects:
        if isinstance(effect, (Granted, Revoked)):
            asked = Request.of(Entity("any", {"roles": [effect.role]}), effect.object, effect.action)
            assert is_.evaluate(asked).allowed is isinstance(effect, Granted)
            assert was.evaluate(asked).allowed is isinstance(effect, Revoked)


def test_a_plain_grant_and_a_plain_revocation_are_told_as_such():
    roles = "role a, b\nb > a\n"
    one = read(r_oasis=roles + 'x: a |- privilege(read, "/x")')
    other = read(r_oasis=roles + 'y: a |- privilege(write, "/x")')
    assert Difference.between(one, other).effects == (
        Revoked("a", "/x", "read", ("a", "b")),
        Granted("a", "/x", "write", ("a", "b")),
    )
    assert str(Difference.between(one, other)) == "1 added, 1 removed"


def test_roles_that_only_the_pdp_knows_narrow_nothing_down():
    files = {"bundle_yaml": "provided: [subject.roles]", "r_oasis": "role a\n"}
    new = read(**files | {"r_oasis": 'role a\na |- privilege(read, "/x")'})
    assert Difference.between(read(**files), new).effects == (Granted("a", "/x", "read"),)


def test_another_hierarchy_is_told_and_touches_everything():
    old, new = read(r_oasis="role a, b\na > b"), read(r_oasis="role a, b, c\na > b\nb > c")
    difference = Difference.between(old, new)
    assert (difference.whole, difference.rearranged) == (True, True)
    assert difference.hierarchy == {"a": ("b",), "b": ("c",)}
    assert not Difference.between(old, old).rearranged


LABELS = """
levels: [low, high]
dominance: permits
subjects: {table: {%s}}
objects: {table: {%s}}
"""
names = st.sampled_from(["ann", "bob", "a*", "*"])
things = st.sampled_from(["/x", "/y", "/x*"])
levels = st.sampled_from(["low", "high"])


def labels(subjects: dict[str, str], objects: dict[str, str]) -> PolicySet:
    def table(entries: dict[str, str]) -> str:
        return ", ".join(f"'{key}': {level}" for key, level in entries.items())

    return read(labels_yaml=LABELS % (table({"zoe": "low", **subjects}), table({"/z": "low", **objects})))


@settings(deadline=None)
@given(*[st.dictionaries(names, levels), st.dictionaries(things, levels)] * 2)
def test_outside_the_effects_the_same_labels_decide_the_same(subjects, objects, new_subjects, new_objects):
    old, new = labels(subjects, objects), labels(new_subjects, new_objects)
    difference = Difference.between(old, new)
    wheres = [compile_predicate(effect.where) for effect in difference.effects]
    was, is_ = old.engine(), new.engine()
    for subject in ("ann", "bob", "zoe"):
        for thing in ("/x", "/x1", "/y", "/z"):
            request = Request.of(subject, thing, "read")
            if not any(where(request) for where in wheres):
                assert same(was, is_, request)


def test_another_label_is_told_as_such():
    effects = Difference.between(labels({"ann": "low"}, {"/x*": "low"}), labels({"ann": "high"}, {})).effects
    assert effects == (Relabelled("subject", "ann"), RelabelledBelow("object", "/x"))


def test_other_levels_touch_everything():
    new = read(labels_yaml=(LABELS % ("zoe: low", "/z: low")).replace("[low", "[least, low"))
    assert Difference.between(labels({}, {}), new).whole
    assert Difference.between(labels({}, {}), read()).whole


def test_what_a_role_loses_by_a_rule_it_may_still_have_by_a_policy():
    abac = """
- uid: p
  effect: allow
  targets: {resource_id: /a, action_id: read}
  rules: {subject: {$.roles: {condition: AnyIn, values: [r1]}}}
"""
    kept = 'role r1\nr1 |- privilege(read, "/b")\n'
    lost = 'r1 |- privilege(read, "/a")\n'

    def effects(*more: File):
        old, new = (PolicySet.read(Bundle.of([*more, File("r.oasis", text)])) for text in (kept + lost, kept))
        return Difference.between(old, new).effects

    assert effects() == (Revoked("r1", "/a", "read", ("r1",)),)
    assert effects(File("abac.yaml", abac)) == (Revoked("r1", "/a", "read"),)

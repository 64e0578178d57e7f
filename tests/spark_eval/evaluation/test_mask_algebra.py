"""What is computed by masks is what the engine decides, for every subject, object, action and context."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Entity, Identity, Request
from authz.decision import Effect
from authz.predicate import And, Equal, Order, Overlaps, Path, Relate
from pdp.abac.policy import Algorithm, Policy
from pdp.abac.source import AbacSource
from pdp.engine.engine import Engine
from sdp_cache.snapshots.snapshot import Origin, Ruling, Snapshot
from sdp_cache.snapshots.writer import write_snapshot
from spark_eval.evaluation import precomputed
from spark_eval.evaluation.decisions import Decisions
from spark_eval.evaluation.mask_algebra import Board, turn
from spark_eval.evaluation.precomputed import Names, precomputation
from spark_eval.plans import joins as relation
from spark_eval.plans import masks
from spark_eval.plans.masks import evaluate
from spark_eval.plans.plan import CannotCombine, Rules, make_plan
from spark_eval.plans.split import Part
from tests.spark_eval import worlds

ACTIONS = [Entity("read"), Entity("write")]
CONTEXTS = [{}, {"a": "a"}, {"a": 1}, {"a": ["a"]}, {"a": True}]
SIGNER = Identity.from_seed(bytes(32))
ALLOW, DENY = Effect.ALLOW, Effect.DENY


class World:
    """Policies and entities, computed both ways."""

    def __init__(self, sources, subjects, objects, most=None, most_named=512):
        self.subjects, self.objects = subjects, objects
        self.engine = Engine([AbacSource(each.policies, each.algorithm, each.name) for each in sources])
        self.plan = make_plan(sources, most_named)
        actions = worlds.table_of("action", ACTIONS)
        side = evaluate(self.plan, worlds.table_of("subject", subjects), Part.SUBJECT)
        self.people = side
        self.side = turn(side, len(self.plan.bits))
        permissions = evaluate(self.plan, worlds.table_of("object", objects).cross(actions), Part.PERMISSION)
        self.classes = permissions.classes(self.plan)
        self.board = Board(self.plan, self.side, self.classes.side, most)

    def cases(self):
        for s, subject in enumerate(self.subjects):
            for o, object_ in enumerate(self.objects):
                for a, action in enumerate(ACTIONS):
                    decisions = [
                        self.engine.evaluate(Request(subject, object_, action, context)).allowed
                        for context in CONTEXTS
                    ]
                    yield s, self.classes.members[o * len(ACTIONS) + a], (subject, object_, action), decisions

    def ruling(self, subject, permission):
        allowed, asking = self.board.ruling(permission)
        word, bit = divmod(subject, 64)
        if int(asking[word]) >> bit & 1:
            return Ruling.ASK
        return Ruling(int(allowed[word]) >> bit & 1)


def agrees(ruling, decisions):
    return ruling is Ruling.ASK or set(decisions) == {ruling is Ruling.ALLOW}


@settings(max_examples=40, deadline=None)
@given(
    worlds.policies(), worlds.algorithms, worlds.policies(most=2), worlds.entities, worlds.entities, st.data()
)
def test_every_ruling_is_what_the_engine_decides_in_every_context(mine, algorithm, others, some, more, data):
    sources = [
        Rules(tuple(others), name="other"),
        Rules(tuple(mine), algorithm),
    ]
    world = World(
        sources,
        worlds.named("s", some),
        worlds.named("o", more),
        data.draw(st.sampled_from([None, 0, 3])),
        data.draw(st.sampled_from([0, 512])),
    )
    for subject, permission, case, decisions in world.cases():
        assert agrees(world.ruling(subject, permission), decisions), case


WITHOUT_CONTEXT = [path for path in worlds.PATHS if path.root != "context"]


@settings(max_examples=25, deadline=None)
@given(worlds.policies(WITHOUT_CONTEXT), worlds.algorithms, worlds.entities, worlds.entities)
def test_nothing_is_asked_that_does_not_depend_on_the_context(policies, algorithm, some, more):
    world = World([Rules(tuple(policies), algorithm)], worlds.named("s", some), worlds.named("o", more))
    for subject, permission, case, decisions in world.cases():
        assert world.ruling(subject, permission) is Ruling(decisions[0]), case


@settings(max_examples=25, deadline=None)
@given(worlds.policies(), worlds.algorithms, worlds.entities, worlds.entities, st.sampled_from([0, 4096]))
def test_the_snapshot_says_the_same_to_caches(policies, algorithm, some, more, most):
    world = World([Rules(tuple(policies), algorithm)], worlds.named("s", some), worlds.named("o", more))
    people = Names(
        [each.id for each in world.subjects],
        [each.id for each in world.objects],
        [each.id for each in ACTIONS],
    )
    origin = Origin("default", 7, "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precomputed, "MAX_ROWS", most)
        computed = precomputation(world.plan, people, world.side, world.classes, origin)
    snapshot = Snapshot.open(write_snapshot(computed, SIGNER), [SIGNER.public], origin)
    for subject, permission, case, decisions in world.cases():
        found, matched = snapshot.lookup(*(each.id for each in case))
        assert agrees(found, decisions)
        if found is not Ruling.ASK:
            assert found is world.ruling(subject, permission) or not most
            decision = world.engine.evaluate(Request(*case))
            assert set(snapshot.policies(matched)) <= set(decision.policies)
            assert bool(matched) is bool(decision.policies)


OWNER = Path("object", ("owner",))
OWN = Policy("own", ALLOW, Relate(Path("subject"), "==", OWNER))
PEOPLE = [Entity(f"u{n}") for n in range(130)]
THINGS = [Entity(f"o{n}", {"owner": f"u{n * 2}"}) for n in range(40)]


def counts(world):
    return [
        int(np.bitwise_count(world.board.ruling(permission).allowed).sum())
        for permission in world.classes.members
    ]


def test_an_owner_is_joined_however_many_there_are(monkeypatch):
    monkeypatch.setattr(relation, "MAX_PAIRS", 10)
    assert counts(World([Rules((OWN,))], PEOPLE, THINGS)) == [1] * 80


def test_a_join_too_large_to_try_is_asked(monkeypatch):
    monkeypatch.setattr(relation, "MAX_PAIRS", 10)
    below = Policy("below", ALLOW, Relate(Path("subject"), "<", OWNER))
    world = World([Rules((below,))], PEOPLE, THINGS)
    assert {world.ruling(s, p) for s in range(130) for p in range(world.classes.side.rows)} == {Ruling.ASK}


def test_a_snapshot_too_wide_asks_about_its_largest_join():
    dept = Policy("dept", ALLOW, Relate(Path("subject", ("dept",)), "==", Path("object", ("dept",))))
    people = [Entity(f"u{n}", {"dept": n % 3}) for n in range(6)]
    things = [Entity(f"o{n}", {"dept": n % 3, "owner": f"u{n + 5}"}) for n in range(6)]
    world = World([Rules((OWN, dept))], people, things, most=4)
    read = world.classes.members[0]
    assert [world.ruling(s, read) for s in range(3)] == [Ruling.ALLOW, Ruling.ASK, Ruling.ASK]
    assert [world.plan.bits[bit].policies for bit in world.board.asking] == [("own",)]
    assert World([Rules((OWN, dept))], people, things, most=20).ruling(1, read) is Ruling.DENY


def test_many_grants_share_the_bit_of_their_role():
    roles = Path("subject", ("roles",))
    grants = [
        Policy(
            f"{role}-{n}",
            ALLOW,
            And((Overlaps(roles, (role,)), Equal(Path("object"), f"o{n}"), Equal(Path("action"), "read"))),
        )
        for role in ("clerk", "chief")
        for n in range(0, 9, 1 if role == "chief" else 3)
    ]
    people = [
        Entity("ann", {"roles": ["clerk"]}),
        Entity("bob", {"roles": ["chief", "clerk"]}),
        Entity("eve"),
    ]
    world = World([Rules(tuple(grants))], people, [Entity(f"o{n}") for n in range(9)], most_named=4)
    assert len(world.plan.bits) == 2
    assert not world.plan.named
    assert counts(world) == [2, 0, 1, 0, 1, 0] * 3
    for subject, permission, case, decisions in world.cases():
        assert agrees(world.ruling(subject, permission), decisions), case


def test_only_one_source_may_combine_otherwise_than_deny_overrides():
    with pytest.raises(CannotCombine, match="`a` and `b` cannot be precomputed together"):
        make_plan(
            [Rules((OWN,), Algorithm.ALLOW_OVERRIDES, "a"), Rules((OWN,), Algorithm.HIGHEST_PRIORITY, "b")]
        )


def test_context_is_asked_only_of_those_whom_it_concerns():
    is_late = Order(Path("context", ("hour",)), ">", 18)
    late = Policy("late", DENY, is_late)
    staff = Policy("staff", ALLOW, Equal(Path("subject", ("staff",)), True))
    nights = Policy("nights", ALLOW, And((Equal(Path("subject", ("staff",)), 2), is_late)))
    people = [Entity("ann", {"staff": True}), Entity("bob", {"staff": 2}), Entity("eve")]
    world = World([Rules((staff, nights))], people, [Entity("o")])
    assert [world.ruling(s, 0) for s in range(3)] == [Ruling.ALLOW, Ruling.ASK, Ruling.DENY]
    world = World([Rules((staff, late))], people, [Entity("o")])
    assert [world.ruling(s, 0) for s in range(3)] == [Ruling.ASK, Ruling.DENY, Ruling.DENY]


@settings(max_examples=25, deadline=None)
@given(
    worlds.policies(),
    worlds.algorithms,
    worlds.entities,
    worlds.entities,
    st.lists(st.integers(0, 4), min_size=70),
)
def test_classes_of_subjects_count_for_as_many_as_they_are(policies, algorithm, some, more, picks):
    people = worlds.named("s", [some[pick % len(some)] for pick in picks])
    world = World([Rules(tuple(policies), algorithm)], people, worlds.named("o", more))
    classes = world.people.classes(world.plan)
    ids = np.arange(world.classes.side.rows)
    counted = []
    for side, sizes in ((world.people, None), (classes.side, classes.sizes)):
        decisions = Decisions(world.plan, turn(side, len(world.plan.bits)), world.classes.side, ids, sizes)
        (tile,) = decisions.tiles(1)
        counted.append([batch.to_pydict() for batch in decisions.batches(tile, "counts")])
    assert counted[0] == counted[1]
    allowed = [sum(world.ruling(s, p) is Ruling.ALLOW for s in range(len(people))) for p in ids.tolist()]
    assert [count for batch in counted[0] for count in batch["allows"]] == allowed


def test_rows_that_only_hash_alike_are_told_apart(monkeypatch):
    monkeypatch.setattr(masks, "_MIXERS", ((np.uint64(0), np.uint64(0)),))
    rows = np.array([[1], [2], [1], [3]], np.uint8)
    first, members = masks._alike(rows)
    assert rows[first][members].tolist() == rows.tolist()
    assert len(first) == 3

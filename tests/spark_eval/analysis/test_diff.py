"""A policy diff: exactly what the engines of the two sets of policies decide differently, and by which policies."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Entity, Request
from authz.decision import Effect
from authz.predicate import And, Equal, Overlaps, Path
from pdp.abac.policy import Policy
from pdp.abac.source import AbacSource
from pdp.engine.engine import Engine
from spark_eval.analysis.compare import CHANGES, Change, members
from spark_eval.analysis.compare import Pair as Compared
from spark_eval.analysis.diff import Example, Summary, label, prefix, prepare
from spark_eval.analysis.seen_diff import Seen, seen_diff
from spark_eval.entities.gathering import Gathered
from spark_eval.evaluation.decisions import make_tiles
from spark_eval.evaluation.joint import Joint
from spark_eval.plans.masks import evaluate
from spark_eval.plans.plan import Rules, make_plan
from spark_eval.plans.split import Part
from spark_eval.schemas import TALLIES
from tests.spark_eval import worlds

ACTIONS = [Entity("read"), Entity("write")]
CONTEXTS = [{}, {"a": "a"}, {"a": 1}, {"a": ["a"]}, {"a": True}]
ALLOW, DENY = Effect.ALLOW, Effect.DENY


class World:
    """Two sets of policies over the same entities, compared both ways."""

    def __init__(self, old, new, subjects, objects, roles=()):
        self.subjects, self.objects = subjects, objects
        self.engines = [Engine([AbacSource(each.policies, each.algorithm)]) for each in (old, new)]
        self.joint = Joint.of(make_plan([old]), make_plan([new]), roles)
        people = evaluate(self.joint.plan, worlds.table_of("subject", subjects), Part.SUBJECT)
        crossed = worlds.table_of("object", objects).cross(worlds.table_of("action", ACTIONS))
        things = evaluate(self.joint.plan, crossed, Part.PERMISSION)
        names = [[each.id for each in several] for several in (subjects, objects, ACTIONS)]
        self.comparison, self.people = prepare(
            self.joint, Gathered(names[0], people), Gathered(names[1], things), names[2]
        )

    def diff(self):
        tiles = make_tiles(len(self.subjects), self.comparison.classes.rows, 2)
        batches = [batch for tile in tiles for batch in self.comparison.tallies(tile)]
        tallies = pa.Table.from_batches(batches, TALLIES)
        decisions = len(self.subjects) * len(self.objects) * len(ACTIONS)
        return Summary(self.comparison, self.people, tallies).diff(decisions)

    def changes(self):
        """What the comparison says of each decision: the kind of change, by subject, object and action."""
        (tile,) = make_tiles(len(self.subjects), self.comparison.classes.rows, 1)
        pair, found = Compared(self.comparison, tile), {}
        for (object_, action), number in zip(self.people.permissions, self.people.classes, strict=True):
            for kind, words in pair.changes(int(number)):
                for row in members(words):
                    found[self.subjects[row].id, object_, action] = kind
        return found

    def decisions(self):
        """What the engines say, in every context, before and after."""
        for case in itertools.product(self.subjects, self.objects, ACTIONS):
            yield (
                tuple(each.id for each in case),
                [
                    [engine.evaluate(Request(*case, context)).effect for context in CONTEXTS]
                    for engine in self.engines
                ],
            )


sources = st.builds(
    lambda policies, algorithm: Rules(tuple(policies), algorithm), worlds.policies(), worlds.algorithms
)


@settings(max_examples=25, deadline=None)
@given(sources, sources, worlds.entities, worlds.entities)
def test_whatever_the_engines_decide_differently_is_found(old, new, some, more):
    world = World(old, new, worlds.named("s", some), worlds.named("o", more))
    changes = world.changes() if world.comparison.classes.rows else {}
    for case, (before, after) in world.decisions():
        change = changes.get(case)
        if change is None:
            assert before == after, case
        else:
            for known, effects in zip(change, (before, after), strict=True):
                assert known == "ask" or set(effects) == {known}, case


def without_context(most=5):
    paths = [path for path in worlds.PATHS if path.root != "context"]
    return st.builds(
        lambda policies, algorithm: Rules(tuple(policies), algorithm),
        worlds.policies(paths, most),
        worlds.algorithms,
    )


@settings(max_examples=25, deadline=None)
@given(without_context(), without_context(), worlds.entities, worlds.entities)
def test_without_a_context_nothing_else_is_found_and_all_is_counted(old, new, some, more):
    world = World(old, new, worlds.named("s", some), worlds.named("o", more))
    expected = {
        case: Change(before[0], after[0]) for case, (before, after) in world.decisions() if before != after
    }
    diff = world.diff()
    counts = {label(kind): list(expected.values()).count(kind) for kind in CHANGES}
    assert diff.changes == {kind: count for kind, count in counts.items() if count}
    assert diff.subjects == len({subject for subject, _, _ in expected})
    assert diff.permissions == len({case[1:] for case in expected})
    assert sum(each.total for each in diff.by_subject) == len(expected)
    assert sum(each.total for each in diff.by_prefix) == len(expected)
    for each in diff.examples:
        assert expected[each.subject, each.object, each.action] == (each.before, each.after)
        request = Request.of(*(next(e for e in several if e.id == name) for several, name in (
            (world.subjects, each.subject), (world.objects, each.object), (ACTIONS, each.action)
        )))  # fmt: skip
        for engine, policies in zip(world.engines, (each.policies_before, each.policies_after), strict=True):
            assert set(engine.evaluate(request).policies) <= set(policies)


DEPT, ROLES = Path("subject", ("dept",)), Path("subject", ("roles",))
READ = Equal(Path("action"), "read")
PEOPLE = [
    Entity("ann", {"dept": "x", "roles": ["clerk"]}),
    Entity("bob", {"dept": "y", "roles": ["clerk", "chief"]}),
    Entity("eve", {"dept": "x"}),
]
THINGS = [Entity(name) for name in ("/a/1/z", "/a/2", "/b/1")]


def test_changes_are_grouped_by_policy_role_and_prefix():
    kept = Policy("kept", ALLOW, And((READ, Equal(Path("object"), "/b/1"))))
    old = Rules((Policy("clerks", ALLOW, And((READ, Overlaps(ROLES, ("clerk",))))), kept))
    new = Rules((Policy("x-only", ALLOW, And((READ, Equal(DEPT, "x")))), kept))
    diff = World(old, new, PEOPLE, THINGS, ["clerk", "chief"]).diff()
    assert (diff.decisions, diff.gained, diff.lost, diff.total) == (18, 2, 2, 4)
    groups = {each.name: (each.gained, each.lost) for each in diff.by_policy}
    assert groups == {"clerks": (0, 2), "x-only": (2, 0)}
    assert {each.name: (each.gained, each.lost) for each in diff.by_role} == {
        "clerk": (0, 2),
        "chief": (0, 2),
    }
    assert {each.name: each.total for each in diff.by_prefix} == {"/a/1/*": 2, "/a/*": 2}
    assert [each.name for each in diff.by_subject] == ["bob", "eve"]
    example = next(each.example for each in diff.by_policy if each.name == "clerks")
    assert example == Example("bob", "/a/1/z", "read", "allow", "deny", ("clerks",), ())


def test_a_condition_that_only_is_written_otherwise_changes_nothing():
    shift = Equal(Path("context", ("shift",)), "night")
    old = Rules((Policy("a", ALLOW, And((READ, shift))),))
    new = Rules((Policy("b", ALLOW, And((shift, READ, shift))),))
    assert World(old, new, PEOPLE, THINGS).diff().total == 0


def test_what_now_depends_on_the_context_is_told_with_its_condition():
    shift = Equal(Path("context", ("shift",)), "night")
    old, new = Rules((Policy("a", ALLOW, READ),)), Rules((Policy("a", ALLOW, And((READ, shift))),))
    diff = World(old, new, PEOPLE, THINGS).diff()
    assert diff.changes == {"allow to ask": 9}
    assert diff.examples[0].condition_after == str(shift)
    assert diff.examples[0].condition_before == ""


def test_objects_near_each_other_have_a_prefix():
    names = ["/a/b/c/d", "/a/b/c", "/a/b", "/a", "a/b", "urn:x:y", "plain"]
    assert [prefix(name) for name in names] == ["/a/b/*", "/a/b/*", "/a/*", "/a", "a/*", "urn:", "plain"]


def test_requests_that_were_asked_count_as_often_as_they_were():
    lost = Seen(Example("ann", "/a/1", "read", "allow", "deny", ("old",), ()), 5, ["clerk"])
    gained = Seen(Example("bob", "/b/2", "read", "deny", "allow", (), ("new",)), 2, [])
    diff = seen_diff(100, [gained, lost])
    assert (diff.decisions, diff.gained, diff.lost) == (100, 2, 5)
    assert [(each.name, each.total) for each in diff.by_policy] == [("old", 5), ("new", 2)]
    assert [(each.name, each.total) for each in diff.by_role] == [("clerk", 5)]
    assert diff.examples[0] == lost.example

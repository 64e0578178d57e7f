"""Role rules and label policies, written out as rules over entities, decide as the engine does."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Entity, Request
from authz.predicate import Equal, Path
from pdp.abac.policy import Algorithm, Policy
from pdp.abac.source import AbacSource
from pdp.engine import Engine
from pdp.label_reader import read_label_policy
from pdp.labels import LabelSource
from pdp.oasis import Domains, RoleSource, parse
from pdp.source import SILENT, Effect
from sdp_cache.snapshot import Ruling
from spark_eval import rules
from spark_eval.board import Board, turn
from spark_eval.masks import evaluate
from spark_eval.plan import make_plan
from spark_eval.rules import UnknownSource, derivations, needs_roles, rules_of
from spark_eval.split import Part
from spark_eval.table import DerivedSource, JsonSource, Table
from tests.pdp.test_labels import POLICY

RULES = """
role doctor(d)
role nurse(w)
role staff
role chief
chief > staff
doctor(d) > staff

privileges: staff |- privilege(read, "/wards/*/plan")
own: doctor(d) |- privilege(read|write, "/doctors/{d}/notes")
ward: nurse(w), [context.shift == w] |- privilege(read, "/wards/{w}/beds")
grade: doctor(d), [subject.grade >= 3] |- privilege(write, "/wards/**")
room: nurse(w), [room == subject.room] |- privilege(list, "/rooms/{room}")
all: chief |- privilege(*, "/wards/a/**")
"""
"""Every kind of rule: seniority, parameters in names, context, attributes, a variable only the object binds."""

TEXTS = ["staff", "chief", "doctor(ann)", "doctor(7)", "nurse(a)", "nurse(b)", "not a role (", "unknown"]
OBJECTS = [
    "/wards/a/plan",
    "/wards/a/beds",
    "/wards/b/beds",
    "/doctors/ann/notes",
    "/doctors/7/notes",
    "/rooms/a",
    "/wards/a/../x",
    "elsewhere",
]
ACTIONS = ["read", "write", "list", "other"]
CONTEXTS = [{}, {"shift": "a"}, {"shift": "b"}]


def role_source():
    return RoleSource(Domains([parse(RULES)]).everything())


class Judged:
    """Sources and entities, by masks and by the engine."""

    def __init__(self, sources, subjects, objects, actions=ACTIONS):
        self.engine = Engine(sources)
        self.subjects, self.objects, self.actions = subjects, objects, actions
        roles = {
            text for each in subjects for text in each.attributes.get("roles") or [] if isinstance(text, str)
        }
        self.plan = make_plan(rules_of(sources, roles))
        derived = derivations(sources)
        people = self.table("subject", subjects, derived)
        permissions = self.table("object", objects, derived).cross(
            Table(len(actions), {"action": JsonSource([{}] * len(actions), actions)})
        )
        self.board = Board(
            self.plan,
            turn(evaluate(self.plan, people, Part.SUBJECT), len(self.plan.bits)),
            evaluate(self.plan, permissions, Part.PERMISSION),
        )

    def table(self, root, entities, derived):
        source = JsonSource([each.attributes for each in entities], [each.id for each in entities])
        more = {name: DerivedSource(source, each) for name, each in derived.items() if name.startswith(root)}
        return Table(len(entities), {root: source, **more})

    def ruling(self, subject, permission):
        allowed, asking = (int(each[0]) >> subject & 1 for each in self.board.rulings(permission))
        return Ruling.ASK if asking else Ruling(allowed)

    def check(self):
        asked = 0
        permissions = list(itertools.product(self.objects, self.actions))
        for (s, subject), (p, (object_, action)) in itertools.product(
            enumerate(self.subjects), enumerate(permissions)
        ):
            decisions = {
                self.engine.evaluate(Request(subject, object_, Entity(action), context)).allowed
                for context in CONTEXTS
            }
            ruling = self.ruling(s, p)
            if ruling is Ruling.ASK:
                asked += 1
            else:
                assert decisions == {ruling is Ruling.ALLOW}, (subject, object_, action)
        return asked


people = st.lists(
    st.builds(
        lambda roles, grade, room: {"roles": roles, "grade": grade, "room": room},
        st.one_of(st.none(), st.just("staff"), st.lists(st.sampled_from([*TEXTS, 7]), max_size=3)),
        st.sampled_from([None, 2, 3]),
        st.sampled_from([None, "a"]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=40, deadline=None)
@given(people, st.sampled_from(Algorithm), st.sampled_from(Effect))
def test_roles_beside_attribute_policies_are_decided_as_the_engine_decides(several, algorithm, effect):
    extra = AbacSource([Policy("x", effect, Equal(Path("subject", ("grade",)), 2))], algorithm)
    subjects = [Entity(f"s{n}", each) for n, each in enumerate(several)]
    Judged([role_source(), extra], subjects, [Entity(each) for each in OBJECTS]).check()


def test_only_what_depends_on_the_context_or_an_unbound_variable_is_asked():
    subjects = [Entity("ann", {"roles": [text], "grade": 3, "room": "a"}) for text in TEXTS]
    judged = Judged([role_source()], subjects, [Entity(each) for each in OBJECTS])
    assert judged.check() == 4  # beds of two wards by their nurses, and one room by both


def test_a_role_with_very_many_instances_is_asked(monkeypatch):
    monkeypatch.setattr(rules, "MAX_INSTANCES", 2)
    subjects = [Entity(f"s{n}", {"roles": [f"doctor(s{n})"]}) for n in range(4)]
    objects = [Entity("/doctors/s1/notes"), Entity("/wards/a/plan")]
    judged = Judged([role_source()], subjects, objects)
    assert judged.check() == 8  # reading and writing the notes, whoever asks
    assert len(judged.plan.bits) < 8


labels = st.sampled_from([None, "public", "internal", "secret {heart}", {"level": "secret"}, "no such", 3])


@settings(max_examples=40, deadline=None)
@given(st.lists(labels, min_size=1, max_size=4), st.lists(labels, min_size=1, max_size=4), st.booleans())
def test_labels_are_decided_as_the_engine_decides(clearances, classifications, permits):
    policy = POLICY if permits else POLICY.replace("permits", "restricts")
    sources = [LabelSource(read_label_policy(policy)), role_source()]
    subjects = [Entity(f"s{n}", {"clearance": each, "roles": ["staff"]}) for n, each in enumerate(clearances)]
    subjects += [Entity("ann"), Entity("bot-1", {"clearance": "secret"})]
    objects = [Entity(f"o{n}", {"classification": each}) for n, each in enumerate(classifications)]
    objects += [Entity("/open/heart/1"), Entity("/open/../1"), Entity("exact"), Entity("/wards/a/plan")]
    actions = ["read", "append", "write", "other"]
    assert Judged(sources, subjects, objects, actions).check() == 0


def test_roles_are_needed_for_role_rules_only():
    assert needs_roles([role_source()])
    assert not needs_roles([AbacSource([], Algorithm.DENY_OVERRIDES)])


def test_a_source_of_another_kind_is_refused():
    class Oracle:
        name = "oracle"

        def judge(self, request, certify=False):
            return SILENT

    with pytest.raises(UnknownSource, match="decisions of `oracle` cannot be precomputed: it is a Oracle"):
        rules_of([Oracle()])

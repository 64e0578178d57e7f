"""An access review counts what the engine grants, what was used of it, and who has duties at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from authz import Request
from authz.errors import InvalidSyntax
from spark_eval.analysis.review import Duty, Separation, read_separations
from spark_eval.jobs.review import ReviewJob, review_access
from spark_eval.runtime.progress import Steps
from tests.spark_eval.jobs.clinic import ACTIONS, Clinic, write_lines


@pytest.fixture(scope="module")
def clinic(tmp_path_factory, spark):
    return Clinic(tmp_path_factory.mktemp("clinic"), spark)


@pytest.fixture(scope="module")
def granted(clinic):
    """What the engine allows in every context, by subject and permission."""
    return {case for case, effect in clinic.decisions() if effect == "allow"}


SEPARATIONS = (
    Separation("write-delete", (Duty("/wards/*", "write"), Duty("/wards/*", "delete")), same_object=True),
    Separation(
        "everywhere", (Duty("/wards/*", "write"), Duty("/files/*", "read"), Duty("/public/*", "read"))
    ),
    Separation("by context", (Duty("/wards/*", "write"), Duty("/public/*", "read"))),
    Separation("nobody", (Duty("/public/*", "delete"), Duty("/wards/*", "read"))),
)


@pytest.fixture(scope="module")
def reviewed(clinic, granted):
    used = [case for case in sorted(granted) if case[0] < "user020" and case[2] != "delete"]
    asked = [dict(zip(("subject", "object", "action"), case, strict=True)) for case in used]
    strange = {"subject": "stranger", "object": "/wards/3", "action": "read", "effect": "allow"}
    denied = {"subject": "user030", "object": "/wards/3", "action": "read", "effect": "deny"}
    write_lines(clinic.folder / "log.jsonl", [*asked, *asked, strange, denied])
    order = ReviewJob(clinic.inputs(), str(clinic.folder / "log.jsonl"), SEPARATIONS)
    return used, review_access(order, clinic.session, Steps(None))


def test_what_is_allowed_and_used_is_counted(clinic, granted, reviewed):
    used, found = reviewed
    effects = [effect for _, effect in clinic.decisions()]
    assert (found.decisions, found.allowed, found.asking) == (
        len(effects),
        len(granted),
        effects.count("ask"),
    )
    assert (found.used, found.strangers) == (len(used), 1)
    subjects = {each.name: (each.allowed, each.used) for each in found.subjects}
    for name, counts in subjects.items():
        assert counts == tuple(sum(case[0] == name for case in several) for several in (granted, used))
    assert sorted((each.allowed for each in found.subjects), reverse=True) == [
        each.allowed for each in found.subjects
    ]
    for each in found.permissions:
        action, object_ = each.name.split()
        assert each.allowed == sum(case[1:] == (object_, action) for case in granted)


def test_permissions_that_nobody_uses_are_listed(granted, reviewed):
    used, found = reviewed
    seen = {case[1:] for case in used}
    assert {tuple(reversed(each.name.split())) for each in found.unused} <= {
        case[1:] for case in granted
    } - seen
    assert found.unused
    assert all(each.used == 0 for each in found.unused)


def test_a_role_is_credited_with_what_it_grants_by_itself(clinic, reviewed):
    used, found = reviewed
    engine = clinic.policy_set.engine()
    people, things = (clinic.entities(name) for name in ("people.jsonl", "things.jsonl"))
    for each in found.roles:
        alone = type(people[0])("somebody", {"roles": [each.role]})
        holders = {person.id for person in people if each.role in (person.attributes["roles"] or ())}
        grants = {
            (object_.id, action.id)
            for object_, action in itertools.product(things, ACTIONS)
            if engine.evaluate(Request(alone, object_, action, {})).allowed
        }
        exercised = {case[1:] for case in used if case[0] in holders}
        assert (each.holders, each.granted) == (len(holders), len(grants))
        assert each.used == len(grants & exercised)
        assert {tuple(reversed(name.split())) for name in each.unused} <= grants - exercised
    assert {each.role for each in found.roles} == {"doctor", "nurse", "chief"}


def test_who_has_separate_duties_is_found(granted, reviewed):
    _, found = reviewed
    conflicts = {each.name: each for each in found.conflicts}
    objects = {}
    for subject, object_, action in granted:
        objects.setdefault((subject, object_), set()).add(action)
    both = {
        s for (s, o), actions in objects.items() if o.startswith("/wards") and {"write", "delete"} <= actions
    }
    assert conflicts["write-delete"].subjects == len(both)
    assert set(conflicts["write-delete"].examples) <= both

    def can(subject, place, action):
        return any(case[0] == subject and case[1].startswith(place) and case[2] == action for case in granted)

    everyone = {case[0] for case in granted}
    wide = [
        s
        for s in everyone
        if can(s, "/wards", "write") and can(s, "/files", "read") and can(s, "/public", "read")
    ]
    assert conflicts["everywhere"].subjects == len(wide)
    assert conflicts["nobody"].subjects == 0


def test_who_may_have_separate_duties_in_some_context_is_found_too(clinic, granted, reviewed):
    _, found = reviewed
    conflict = next(each for each in found.conflicts if each.name == "by context")
    possible = granted | {case for case, effect in clinic.decisions() if effect == "ask"}

    def with_both(cases):
        writers = {s for s, o, a in cases if o.startswith("/wards") and a == "write"}
        return writers & {s for s, o, a in cases if o.startswith("/public") and a == "read"}

    certain, by_context = with_both(granted), with_both(possible) - with_both(granted)
    assert certain
    assert by_context
    assert (conflict.subjects, conflict.possible) == (len(certain), len(by_context))
    assert set(conflict.possible_examples) <= by_context
    assert [each.name for each in found.conflicts if each.holds] == ["nobody"]


def test_without_a_log_nothing_is_said_about_use(clinic):
    found = review_access(ReviewJob(clinic.inputs()), clinic.session, Steps(None))
    assert found.used is None
    assert {each.used for each in (*found.subjects, *found.roles, *found.policies)} == {None}
    assert found.unused == ()


def test_policies_are_listed_with_what_they_grant(clinic, reviewed):
    _, found = reviewed
    grants = {each.policy: each.granted for each in found.policies}
    assert grants["public"] == 40 * 4
    assert "frozen" not in grants
    shares = [each.used / each.granted for each in found.policies]
    assert shares == sorted(shares)


def test_separations_are_read_from_yaml():
    text = "- name: pay\n  duties: [{action: order}, {object: /x/*, action: pay}]\n"
    assert read_separations(text) == (Separation("pay", (Duty("*", "order"), Duty("/x/*", "pay"))),)
    with pytest.raises(InvalidSyntax, match="`pay` separates nothing: give at least two duties"):
        read_separations("- name: pay\n  duties: [{action: pay}]\n")


def test_the_counts_are_whole_numbers(reviewed):
    assert isinstance(reviewed[1].allowed, int)
    assert not isinstance(reviewed[1].allowed, np.integer)

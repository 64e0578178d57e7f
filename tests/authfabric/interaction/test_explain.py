"""Explaining rules: what is said of each rule is what a PDP and a broker do with it."""

from __future__ import annotations

import json

import msgspec
import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.interaction.explain import Situation, explain_rules
from authz import Entity
from pdp.rules import Interaction, read_rule_file
from pubsub_core.rules.fluents import Fluent
from pubsub_core.types.event_type import AttributeType, EventType
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.kinds import PITO, catalogue_of, ids

T = AttributeType
RULES = """
mine: ALLOW SUBSCRIPTION TO ward.status WHERE user.ward = ward OR credentials(user, head)
calm: RESTRICT DELIVERY OF ward.status WHERE NOT alarm(ward) FILTER pulse < 200
board: TRANSFORM EVENT ward.status TO ward.board ON notify EXECUTE bucket(pulse, 'low', 50, 'high') THEN drop(name)
raw: TRANSFORM EVENT ward.status TO ward.raw ON notify EXECUTE round(pulse, 10) WHERE alarm(ward) OVERRIDES board
first: TRANSFORM EVENT ward.status TO ward.raw ON notify EXECUTE rename(name, who) WHERE alarm(ward)
FLUENT alarm(ward) INITIATED BY a(ward) TERMINATED BY b(ward)
"""
EVENT = {"ward": "7", "pulse": 123, "name": "Bo"}


def explained(event=EVENT, types=None, rules=RULES, **more):
    subject = Entity("ann", {"ward": more.pop("ward", "7"), "roles": more.pop("roles", [])})
    situation = Situation(subject, "ward.status", event=event, **more)
    return explain_rules(Interaction.of([read_rule_file(rules, "w.rules")]), situation, types)


def states(report) -> dict[str, tuple[bool, bool | None, tuple[str, ...]]]:
    return {each.rule: (each.concerns, each.applies, each.overridden) for each in report.rules}


def test_what_is_seen_is_what_the_rules_make_of_it():
    report = explained()
    assert report.allowed
    assert [(each.type, each.attributes) for each in report.seen] == [
        ("ward.board", {"ward": "7", "pulse": "high"})
    ]
    assert states(report)["board"] == (True, True, ())
    assert states(report)["raw"] == (True, False, ())


def test_an_overriding_rule_takes_the_place_of_the_other_and_steps_to_one_type_add_up():
    report = explained(facts=[Fluent("alarm", ("7",))])
    assert states(report)["board"] == (True, True, ("raw",))
    assert [(each.type, each.attributes) for each in report.seen] == [
        ("ward.raw", {"ward": "7", "pulse": 120, "who": "Bo"})
    ]
    (calm,) = [each for each in report.rules if each.rule == "calm"]
    assert (calm.applies, calm.left) == (False, "NOT alarm(ward)")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ward": "8"}, "no ALLOW applies to this event"),
        ({"event": {**EVENT, "pulse": 250}}, "held back by `calm`"),
        (
            {"rules": RULES.replace("alarm(ward) OVERRIDES", "gone(ward) OVERRIDES")},
            "`gone` is no fluent of 1 thing",
        ),
    ],
)
def test_why_nothing_is_delivered_is_said(change, reason):
    report = explained(**change)
    assert report.allowed
    assert report.withheld.startswith(reason)
    assert report.seen == ()


def test_without_an_event_what_is_left_for_the_broker_is_told():
    report = explained(event=None, roles=["head"])
    (mine,) = [each for each in report.rules if each.rule == "mine"]
    assert (mine.concerns, mine.left, mine.applies) == (True, "user.ward = ward", None)
    assert report.seen is None


def test_functions_hold_of_what_is_listed():
    rules = "ALLOW SUBSCRIPTION TO ward.status WHERE known(name, 5)"
    assert explained(rules=rules, functions=frozenset({"known"})).withheld == "no ALLOW applies to this event"
    assert explained(rules=rules, functions=frozenset({"known"}), facts=[Fluent("known", ("Bo", 5))]).seen
    assert "`known` is no fluent" in explained(rules=rules).withheld


def test_types_that_are_given_are_held_to():
    new_id = ids()
    source = EventType.new(
        "ward.status", PITO.public, [("ward", T.STRING), ("pulse", T.INTEGER), ("name", T.STRING)], new_id
    )
    board = EventType.new("ward.board", PITO.public, [("ward", T.STRING), ("pulse", T.INTEGER)], new_id)
    report = explained(types=catalogue_of(source, board))
    assert "`pulse` must be a whole number" in report.withheld
    assert "is not an attribute" in explained(event={"heat": 3}, types=catalogue_of(source, board)).withheld


def explain(*arguments: object):
    return CliRunner().invoke(app, ["rules", "explain", *map(str, arguments)])


def test_the_command_reads_what_it_is_told_and_ends_with_what_is_so(tmp_path):
    file, types = tmp_path / "w.rules", tmp_path / "types"
    file.write_text("ALLOW SUBSCRIPTION TO t WHERE near(user, x) AND user.grade > 2 AND sub.x = 'a'")
    types.mkdir()
    definition = EventType.new("t", PITO.public, [("x", AttributeType.STRING)], ids())
    (types / "t.type").write_bytes(msgspec.json.encode(SignedType.sign(definition, PITO)))
    who = (
        file,
        "--subject",
        "ann",
        "--type",
        "t",
        "--attribute",
        "grade=3",
        "--sub",
        "x=a",
        "--function",
        "near",
    )
    event = ("--event", '{"x": "a"}')
    seen = explain(*who, *event, "--fluent", "near(ann, a)", "--types", types, "--json")
    assert (seen.exit_code, json.loads(seen.stdout)["seen"]) == (0, [{"type": "t", "attributes": {"x": "a"}}])
    assert explain(*who, *event, "--fluent", "near(ann, b)").exit_code == 1
    assert explain(*who[:-4]).exit_code == 1


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["--event", "[1]"], 2),
        (["--fluent", "not a fluent"], 2),
        (["--fluent", "f(g(x))"], 2),
        (["--attribute", "grade"], 2),
        (["--table", "t=missing.csv"], 3),
        (["--table", "missing.csv"], 2),
        (["--types", "missing"], 3),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, more, code):
    file = tmp_path / "w.rules"
    file.write_text("ALLOW SUBSCRIPTION TO t")
    result = explain(file, "--subject", "ann", "--type", "t", *more)
    assert result.exit_code == code
    assert result.stderr.startswith("error: ")

"""Application files: what they say, and what is said of one that cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from authfabric.applications import InvalidApplication, application_schema, check_rules, read_application
from authfabric.applications.definitions import define
from authfabric.applications.policies import with_application
from authfabric.applications.steps import RoutedOtherwise, check_routed
from authfabric.cli import app
from authz import Identity, Request
from pdp.bundle import Bundle, File, PolicySet

ROOT = Path(__file__).parents[3]
TEXT = """
owner: nhs
types:
  Prescribed:
    attributes: {nurse: string, drug: "string, sealed", patient: "string, sealed"}
brokers: {east: {history: default}, west: {}}
clients:
  surgery: {broker: east, publishes: [Prescribed]}
  doctor: {broker: east, subscribes: {Prescribed: all}}
  researcher: {broker: west, subscribes: {Prescribed: {sees: [nurse], where: "drug = 'morphine'"}}}
"""


@pytest.fixture
def read(tmp_path):
    def reading(text: str):
        path = tmp_path / "surgery.yaml"
        path.write_text(text)
        return read_application(path)

    return reading


def test_a_broker_gets_the_keys_of_what_its_clients_publish_see_or_are_filtered_by(read):
    brokers = read(TEXT).brokers
    assert brokers["east"].reads == {"Prescribed": ("drug", "patient")}
    assert brokers["west"].reads == {"Prescribed": ("drug",)}


@pytest.mark.parametrize(
    ("old", "new", "place", "problem"),
    [
        ("drug: \"string, sealed\"", "drug: strong", "types.Prescribed.attributes.drug", "must be one of string"),
        ("sees: [nurse]", "sees: [nurze]", "clients.researcher.subscribes.Prescribed", "did you mean `nurse`?"),
        ("broker: west", "broker: north", "clients.researcher.broker", "there is no broker `north`"),
        ("drug = 'morphine'", "drug = ", "clients.researcher.subscribes.Prescribed", "`where` cannot be read"),
        ("clients:", "cliens:", "at the top", "did you mean `clients`?"),
        ("broker: west, ", "", "clients.researcher.broker", "must say which: east, west"),
        ("publishes: [Prescribed]", "publishes: [Perscribed]", "clients.surgery.publishes", "did you mean"),
        ("history: default", "histori: default", "brokers.east", "did you mean `history`?"),
        ("sealed\"", "routed\"", "types.Prescribed.attributes", "only one can be routed, not drug, patient"),
        ("nurse: string", "nurse: 'float, routed'", "types.Prescribed.attributes.nurse", "string, integer, boolean"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_named_with_its_place(read, old, new, place, problem):
    assert old in TEXT
    with pytest.raises(InvalidApplication) as caught:
        read(TEXT.replace(old, new))
    assert caught.value.place == place
    assert problem in caught.value.problem


def test_a_routed_attribute_is_sealed_and_its_type_is_routed_by_it_for_good(read):
    application = read(TEXT.replace("nurse: string", "nurse: 'string, routed'"))
    spec = application.types["Prescribed"]
    assert spec.sealed == ("nurse", "drug", "patient")
    definition = define(spec, Identity.generate().public)
    assert definition.carriage.routed == next(
        each.id for each in definition.attributes if each.name == "nurse"
    )
    check_routed(definition, spec)
    with pytest.raises(RoutedOtherwise, match="routed by `nurse`"):
        check_routed(definition, read(TEXT).types["Prescribed"])


def test_its_policies_stand_beside_all_others_and_replace_their_own(read):
    other = File("sales.yaml", "- {uid: a, effect: allow, targets: {subject_id: ann}, rules: {}}\n")
    first = with_application(Bundle.of([other]), read(TEXT))
    second = with_application(first, read(TEXT.replace("doctor:", "nurse:")))
    assert other in second.files
    names = set(PolicySet.read(second).names)
    assert {"a", "surgery-nurse-sees-Prescribed"} <= names
    assert not any("doctor" in name for name in names)
    assert with_application(second, read(TEXT.replace("doctor:", "nurse:"))) == second


async def test_whoever_subscribes_is_let_in_where_rules_govern_the_type_too(read):
    rules = "rules: 'a: ALLOW SUBSCRIPTION TO Prescribed WHERE credentials(user, auditor)'\n"
    point = PolicySet.read(with_application(Bundle(), read(TEXT + rules))).engine(1)
    asked = [
        await point.decide(Request.of(each, "/types/Prescribed", "subscribe"))
        for each in ("doctor", "mallory")
    ]
    assert [each.allowed for each in asked] == [True, False]
    (seen,) = [
        each
        for each in (
            await point.decide(Request.of("researcher", "/types/Prescribed", "subscribe"))
        ).obligations
        if "attributes" in each
    ]
    assert seen["attributes"] == ["nurse"]


def test_the_published_schema_is_the_one_that_the_command_prints_and_knows_such_a_file():
    printed = CliRunner().invoke(app, ["event", "schema"]).stdout
    assert json.loads(printed) == application_schema()
    assert (ROOT / "docs" / "application.schema.json").read_text() == printed
    validator = jsonschema.Draft202012Validator(application_schema())
    assert list(validator.iter_errors(yaml.safe_load(TEXT))) == []
    assert list(validator.iter_errors(yaml.safe_load(TEXT.replace("sealed", "seeled"))))


BLURRED = """
owner: nhs
types:
  Vital: {attributes: {patient: string, age: integer}}
  Study: {attributes: {age: string}}
clients:
  ward: {publishes: [Vital]}
rules: |
  blurred: TRANSFORM EVENT Vital TO Study ON notify EXECUTE drop(patient) THEN bucket(age, 'young', 40, 'old')
  elsewhere: TRANSFORM EVENT Vital TO Foreign ON notify EXECUTE drop(patient)
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("TO Study", "TO Vital", "`age` becomes of type string, and in `Vital` it is of type integer"),
        ("drop(patient) THEN bucket", "bucket", "`patient` is left, and `Study` has no such attribute"),
        ("TRANSFORM EVENT Vital TO Study", "TRANSFORM Vital", "rules.rules"),
    ],
)
def test_rules_that_make_events_of_no_type_are_refused_before_anything_is_done(
    read, tmp_path, old, new, problem
):
    path = tmp_path / "surgery.yaml"
    check_rules(read(BLURRED), path)
    with pytest.raises(InvalidApplication) as raised:
        check_rules(read(BLURRED.replace(old, new, 1)), path)
    assert problem in str(raised.value)
    assert raised.value.place.startswith("rules")
    ran = CliRunner().invoke(app, ["event", "plan", str(path), "--url", "nats://127.0.0.1:1"])
    assert problem in ran.stderr.replace("\n", " ")

"""Transformations: what each step makes of an event, and that it tells no more than it says."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authz.rules import Transform, parse_rules
from pubsub_core.events.event import Event
from pubsub_core.rules.program import Program
from pubsub_core.rules.transformation import Scene, Step, Untransformable, reshape
from pubsub_core.rules.transformation_steps import InvalidStep, make_step
from pubsub_core.types.event_type import AttributeType

T = AttributeType
KINDS = {
    "patient_id": T.STRING,
    "pulse": T.INTEGER,
    "weight": T.FLOAT,
    "seen": T.TIMESTAMP,
    "where_at": T.GEO,
    "alone": T.BOOLEAN,
}
READING = {
    "patient_id": "p4122",
    "pulse": 71,
    "weight": 80.4,
    "seen": 7_265.5,
    "where_at": {"lat": 52.21, "lon": 0.119},
    "alone": True,
}
WARDS = {("wards", "p4122"): {"ward": "C3"}}
SCENE = Scene(b"secret", lambda table, key: WARDS.get((table, key)))


def event(number: int = 7, publisher: bytes = b"publisher") -> Event:
    return Event("", "", publisher, 0.0, number, {})


def steps(text: str) -> list[Step]:
    (rule,) = parse_rules(f"TRANSFORM EVENT a TO b ON notify EXECUTE {text}")
    assert isinstance(rule.body, Transform)
    return [make_step(call) for call in rule.body.steps]


def after(
    text: str, values: dict[str, object] = READING, of: Event | None = None, scene: Scene = SCENE
) -> dict[str, object]:
    program = Program()
    for name in values:
        program.load(name, name)
    for step in steps(text):
        step.emit(program, scene)
    for name in program.names:
        program.store(name, name)
    (made,) = program.function("to", "version")([replace(of or event(), attributes=values)])
    return made.attributes


def kinds_after(text: str) -> dict[str, AttributeType]:
    return reshape(steps(text), KINDS)


@pytest.mark.parametrize(
    ("text", "changed", "kinds"),
    [
        ("drop(patient_id, alone)", {"patient_id": None, "alone": None}, {"patient_id": None, "alone": None}),
        ("keep()", {}, {}),
        ("null(patient_id)", {"patient_id": None}, {}),
        ("bucket(pulse, 'low', 50, 'normal', 110, 'high')", {"pulse": "normal"}, {"pulse": T.STRING}),
        ("bucket(pulse, 'low', 71, 'high')", {"pulse": "high"}, {"pulse": T.STRING}),
        ("round(pulse, 10)", {"pulse": 70}, {}),
        ("round(weight, 0.5)", {"weight": 80.0}, {}),
        ("period(seen, '1 hour')", {"seen": 7_200.0}, {}),
        ("place(where_at, 0.1)", {"where_at": {"lat": 52.2, "lon": 0.1}}, {}),
        ("rename(pulse, heart)", {"pulse": None, "heart": 71}, {"pulse": None, "heart": T.INTEGER}),
        ("enrich(ward, 'string', 'wards', patient_id)", {"ward": "C3"}, {"ward": T.STRING}),
        ("retype(pulse, 'string')", {"pulse": "71"}, {"pulse": T.STRING}),
        ("retype(pulse, 'float') THEN round(pulse, 2)", {"pulse": 70.0}, {"pulse": T.FLOAT}),
        ("rename(pulse, heart) THEN drop(heart)", {"pulse": None}, {"pulse": None}),
    ],
)
def test_what_each_step_makes_of_an_event(text, changed, kinds):
    expected = {name: value for name, value in (READING | changed).items() if value is not None}
    assert after(text) == expected
    assert kinds_after(text) == {name: kind for name, kind in (KINDS | kinds).items() if kind is not None}


@given(st.integers(-1000, 1000), st.integers(1, 50), st.binary(min_size=1))
def test_noise_stays_within_its_bound_and_is_the_same_for_the_same_event(value, most, publisher):
    reading, of = {"pulse": value, "weight": float(value)}, event(7, publisher)
    first = after(f"perturb(pulse, {most})", reading, of)
    assert isinstance(first["pulse"], int)
    assert abs(first["pulse"] - value) <= most
    assert first == after(f"perturb(pulse, {most})", reading, of)


def test_noise_differs_between_events_and_reaches_both_sides():
    noise = {after("perturb(weight, 5)", READING, event(n))["weight"] - 80.4 for n in range(200)}
    assert len(noise) == 200
    assert min(noise) < -4
    assert max(noise) > 4


def test_noises_of_two_rules_or_of_two_events_do_not_cancel_out():
    """A value plus 2u and the same plus 10u would tell the value, as the same noise on two values their difference."""

    def noise(most: float, of: Event) -> float:
        return (after(f"perturb(weight, {most})", READING, of)["weight"] - 80.4) / most

    one, later = event(7), msgspec.structs.replace(event(7), time=event(7).time + 1)
    assert noise(2, one) != pytest.approx(noise(10, one))
    assert noise(2, one) != pytest.approx(noise(2, later))


def test_a_pseudonym_follows_the_value_and_the_secret():
    other_secret = Scene(b"other", SCENE.look_up)
    name = after("hash(patient_id)")["patient_id"]
    assert name == after("hash(patient_id)", READING, event(8))["patient_id"]
    assert name != after("hash(patient_id)", READING, scene=other_secret)["patient_id"]
    assert name != after("hash(patient_id)", READING | {"patient_id": "p4123"})["patient_id"]
    assert "4122" not in str(name)
    assert kinds_after("hash(pulse)")["pulse"] is T.STRING


@pytest.mark.parametrize("name", ["pulse", "where_at"])
def test_a_value_that_does_not_fit_makes_the_event_undeliverable(name):
    text = "round(pulse, 10)" if name == "pulse" else "place(where_at, 1)"
    with pytest.raises(Untransformable) as caught:
        after(text, READING | {name: "much"})
    assert caught.value.attribute == name


def test_what_is_missing_stays_missing():
    for text in ("round(pulse, 10)", "perturb(pulse, 1)", "bucket(pulse, 'a', 1, 'b')", "hash(pulse)"):
        assert after(text, {}) == {}
    assert after("enrich(ward, 'string', 'wards', patient_id)", {"patient_id": "nobody"}) == {
        "patient_id": "nobody"
    }


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("forget(pulse)", "is unknown: there are drop, null"),
        ("drop()", "write drop(attribute, ...)"),
        ("drop('pulse')", "write drop(attribute, ...)"),
        ("drop(user.id)", "write drop(attribute, ...)"),
        ("round(pulse, 0)", "write round(attribute, unit)"),
        ("round(pulse, 10, 20)", "write round(attribute, unit)"),
        ("bucket(pulse, 'low')", "with rising bounds"),
        ("bucket(pulse, 'low', 9, 'mid', 3, 'high')", "with rising bounds"),
        ("period(seen, '1 moon')", "write period(attribute, '1 hour')"),
        ("retype(pulse, 'text')", "write retype(attribute, 'type')"),
    ],
)
def test_a_step_that_cannot_be_done_says_how_it_is_written(text, part):
    with pytest.raises(InvalidStep) as caught:
        steps(text)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("drop(name)", "`name` is not there"),
        ("round(patient_id, 2)", "`patient_id` is a string, not a float or integer or timestamp"),
        ("place(pulse, 2)", "`pulse` is a integer, not a geopoint"),
        ("rename(pulse, weight)", "`weight` is there already"),
        ("retype(patient_id, 'integer')", "does not become a integer without loss"),
    ],
)
def test_a_step_that_does_not_fit_the_type_is_refused(text, part):
    with pytest.raises(Untransformable) as caught:
        kinds_after(text)
    assert part in str(caught.value)

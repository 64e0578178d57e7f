"""From obligations and capabilities to restrictions."""

from __future__ import annotations

from math import nan

import pytest

from authz.predicate import TRUE, And, Equal, Order, Path
from authz.spki import Capability, Right, Use, Validity, parse_authority, permit
from pubsub_core.access.enforcement import GENERIC, Enforcement
from pubsub_core.access.obligation import Reader
from pubsub_core.access.restriction import Check, Restriction
from pubsub_core.errors import InvalidObligation
from pubsub_core.events.event import Event
from tests.pubsub_core.kinds import MET, PITO, catalogue_of, sighting

KIND = sighting()
NAMES = catalogue_of(KIND).names(KIND.version)
ID = {name: each.id for name, each in NAMES.items()}
PLATE, SPEED, PLACE = (Path("event", (ID[name],)) for name in ("numberplate", "speed", "location"))
READ, WRITE = (
    Reader(NAMES, {"plate": "X", "max": 9}, right, GENERIC) for right in (Right.SUBSCRIBE, Right.PUBLISH)
)


def test_each_obligation_has_its_meaning():
    assert READ.obligations([{"attributes": ["time", "speed", "unheard-of"]}]).visible == {
        ID["time"],
        ID["speed"],
    }
    hidden = READ.obligations([{"hidden": ["speed"]}]).visible
    assert hidden == set(ID.values()) - {ID["speed"]}
    assert READ.obligations([{"filter": "speed > $max"}]).filter == Order(SPEED, ">", 9)
    assert READ.obligations([{"values": {"numberplate": "$plate"}}]).filter == Equal(PLATE, "X")
    assert WRITE.obligations([{"values": {"location": "Soho"}}]).forced == {ID["location"]: "Soho"}
    check = {"predicate": "multiple-of", "with": {"value": "event.speed", "factor": "$max"}}
    assert READ.obligations([check]).checks == (Check("multiple-of", {"factor": 9}, {"value": ID["speed"]}),)
    assert READ.obligations([]) == Restriction()


@pytest.mark.parametrize(
    ("name", "value"), [("speed", "fast"), ("location", 5), ("time", "noon"), ("speed", nan)]
)
def test_nothing_is_forced_that_the_attribute_cannot_be(name, value):
    with pytest.raises(InvalidObligation, match=f"`{name}` must be"):
        WRITE.obligations([{"values": {name: value}}])


def test_several_obligations_all_bind():
    both = READ.obligations(
        [{"filter": "speed > 1", "attributes": ["speed"]}, {"filter": "numberplate = 'Y'"}]
    )
    assert both.visible == {ID["speed"]}
    assert both.filter == And((Order(SPEED, ">", 1), Equal(PLATE, "Y")))


@pytest.mark.parametrize(
    "obligation",
    [
        {},
        {"watermark": True},
        {"attributes": "speed"},
        {"filter": "colour = 1"},
        {"filter": "speed >"},
        {"filter": 5},
        {"filter": "speed = $unknown"},
        {"values": ["speed"]},
        {"values": {"colour": 1}},
        {"values": {"speed": "$unknown"}},
        {"predicate": "no-such"},
        {"predicate": "one-in", "with": 5},
        {"predicate": "multiple-of", "with": {"value": "event.colour"}},
    ],
)
def test_what_cannot_be_understood_is_refused(obligation):
    with pytest.raises(InvalidObligation):
        READ.obligations([obligation])


def granted(text: str, right: Right) -> Restriction:
    capability = Capability(PITO.public, MET.public, False, parse_authority(text), Validity())
    grant = permit(capability, Use(right, KIND.name, 0.0), {}).grant
    reader = READ if right is Right.SUBSCRIBE else WRITE
    return reader.grant(capability, grant, KIND.name)


def test_a_capability_filters_what_its_holder_receives_and_forces_what_it_publishes():
    grants = 'type: uk.gov.pito.*\naction: publish|subscribe\nattributes: location = "Soho", speed > 5, time'
    read, write = granted(grants, Right.SUBSCRIBE), granted(grants, Right.PUBLISH)
    assert read.visible == write.visible == {ID["location"], ID["speed"], ID["time"]}
    assert read.filter == And((Equal(PLACE, "Soho"), Order(SPEED, ">", 5)))
    assert write.forced == {ID["location"]: "Soho"}
    assert write.filter == And((Order(SPEED, ">", 5),))


def test_the_rates_and_hours_of_a_capability_are_looked_at_with_each_use():
    rule = granted("type: *\naction: subscribe\nrate: 2 per minute\nwhen: 00:00-12:00", Right.SUBSCRIBE)
    assert rule.filter == TRUE
    assert rule.local
    enforcement, event = Enforcement(rule), Event(KIND.id, KIND.version, b"k", 0.0, 1, {})
    passed = [at for at in (0, 1, 2, 59, 60, 13 * 3600) if enforcement.show(event, 1, at) is not None]
    assert passed == [0, 1, 60]

"""A ward whose events the tests of rules are about, without a network."""

from __future__ import annotations

from collections.abc import Mapping

from authz.rules import Point
from pubsub_core.events.event import Event
from pubsub_core.rules.interaction import About, Interaction, read_interaction
from pubsub_core.rules.judge import Judge, Rulebook
from pubsub_core.rules.subscriber_filter import SubscriberFilter
from pubsub_core.types.event_type import AttributeType, EventType
from tests.pubsub_core.kinds import PITO, catalogue_of, ids

T = AttributeType
_new = ids()
READING = EventType.new(
    "ward.reading",
    PITO.public,
    [("patient", T.STRING), ("nurse", T.STRING), ("pulse", T.INTEGER), ("taken", T.TIMESTAMP)],
    _new,
)
BLURRED = EventType.new("ward.blurred", PITO.public, [("pulse", T.STRING), ("nurse", T.STRING)], _new)
AUDITED = EventType.new("ward.audited", PITO.public, [("who", T.STRING), ("pulse", T.INTEGER)], _new)
CATALOGUE = catalogue_of(READING, BLURRED, AUDITED)
NAMES = CATALOGUE.names(READING.version)
USER = {"subject": "ann", "ward": "C3"}


def read(*rules: tuple[str, str], point: Point = Point.NOTIFY, **fixed: object) -> Interaction:
    """The rules, each with its id."""
    about = About(NAMES, READING.version, (READING.name,), {"user": USER, "sub": fixed}, point)
    return read_interaction([{"interaction": text, "rule": id_} for id_, text in rules], about)


def book() -> Rulebook:
    return Rulebook(CATALOGUE, b"secret")


def reading(number: int = 1, at: float = 1000.0, **named: object) -> Event:
    values = {NAMES[name].id: value for name, value in named.items()}
    return Event(READING.id, READING.version, b"k" * 32, at, number, values)


def named(event: Event) -> dict[str, object]:
    attributes = CATALOGUE.attributes(event.version)
    return {attributes[id_].name: value for id_, value in event.attributes.items()}


def shown(
    interaction: Interaction,
    event: Event,
    *,
    rules: Rulebook | None = None,
    now: float = 1000.0,
    asked: str = "",
) -> dict[str, Mapping[str, object]]:
    """What a client gets of an event: by the names of the types it becomes, its attributes."""
    wanted = SubscriberFilter(asked, READING.id, CATALOGUE)
    found = Judge(interaction, rules or book(), wanted).show(event, now)
    return {CATALOGUE.version(each.version).name: named(each) for each in found.events} if found else {}

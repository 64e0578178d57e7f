"""The answer: who could have read an attribute, who did, which brokers could open it, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from authfabric.exposure.counting import Read, Tally, count
from authfabric.exposure.evidence import Client
from authfabric.exposure.gathering import Gathered
from authfabric.exposure.views import find_views
from pdp.bundle import Bundle
from pubsub_core.history import HistoryStore

ELSEWHERE = (
    "what was shown is counted for all brokers; this history has what was published at one: ask for each"
)


class Shown(msgspec.Struct, frozen=True):
    """What is on record."""

    events: int
    first: float
    last: float
    """When the first and the last were sent."""


class ClientExposure(msgspec.Struct, frozen=True):
    """One client."""

    name: str
    could: Tally
    shown: Shown | None = None
    """What it was shown, by the audit trail: everything that was replayed, went under rules or had to be recorded."""
    asked: int = 0
    """How often it was allowed to read events of the type, by the audit trail."""
    brokers: tuple[str, ...] = ()


class BrokerExposure(msgspec.Struct, frozen=True):
    """A broker that could open the attribute, from when to when; None for always, or until now."""

    broker: str
    start: float | None
    end: float | None


class Exposure(msgspec.Struct, frozen=True):
    """The whole answer."""

    type: str
    attribute: str
    start: float | None
    end: float | None
    """When the events were published that it is about."""
    events: int
    """Those that are kept here and have a value of the attribute."""
    clients: tuple[ClientExposure, ...]
    """Those that could have read something, or did; the most exposing first."""
    others: int
    """How many more clients there are, that could have read nothing."""
    brokers: tuple[BrokerExposure, ...] = ()
    opened: int = 0
    """Events that were opened to find this out; none if the database counted."""
    proposed: bool = False
    remarks: tuple[str, ...] = ()


async def find_exposure(
    store: HistoryStore, found: Gathered, proposed: Bundle | None = None, read: Read | None = None
) -> Exposure:
    """Who could have read it, who did, and of what the proposed policies would have left nothing.

    With `read`, that reads events where the database cannot count; then it is not told of what somebody was shown how
    much proposed policies would have prevented.
    """
    question, evidence, trail = found.question, found.evidence, found.trail
    shown = trail.shown()
    async with find_views(question, evidence, proposed) as (views, accesses):
        disclosed = trail.was_shown if shown and read is None else None
        counts = await count(store, question, views, accesses, disclosed, read=read)
    by_name: dict[str, list[Client]] = {}
    for each in evidence.clients:
        by_name.setdefault(each.credential.name, []).append(each)
    remarks = list(found.remarks)
    if counts.damaged:
        remarks.append(f"{counts.damaged:,} events do not open, and are not counted: see `history verify`")
    if any(count > counts.events for count, *_ in shown.values()):
        remarks.append(ELSEWHERE)
    clients = [
        ClientExposure(
            name,
            counts.tallies.get(name, Tally()),
            Shown(*shown[name]) if name in shown else None,
            trail.asked[name].count if name in trail.asked else 0,
            tuple(sorted({host for each in by_name.get(name, ()) for host in each.brokers})),
        )
        for name in sorted({*by_name, *shown})
    ]
    exposed = [each for each in clients if _exposed(each)]
    return Exposure(
        found.definition.name,
        evidence.catalogue.attributes(found.definition.version)[question.attribute].name,
        _time(question.within.start),
        _time(question.within.end),
        counts.events,
        tuple(sorted(exposed, key=lambda each: (-each.could.full, -each.could.altered, each.name))),
        len(clients) - len(exposed),
        tuple(_brokers(found)),
        counts.opened,
        proposed is not None,
        tuple(remarks),
    )


def _exposed(client: ClientExposure) -> bool:
    could = client.could
    return bool(could.full or could.altered or could.unknown or client.shown)


def _brokers(found: Gathered) -> Iterator[BrokerExposure]:
    for name, held in sorted(found.evidence.keys.held.items()):
        for span in sorted(held.get(found.question.attribute, ()), key=lambda each: each.start):
            yield BrokerExposure(name, _time(span.start), _time(span.end))


def _time(at: float) -> float | None:
    return None if at in (float("-inf"), float("inf")) else at

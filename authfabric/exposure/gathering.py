"""All that is known of then, gathered: types, releases, the audit trail, profiles on this machine, and keys."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from authfabric.exposure.evidence import Client, Evidence, Period, Question
from authfabric.exposure.key_holders import find_keys
from authfabric.exposure.trail import Trail
from authz import AuthFabricError, PublicKey
from bus.audit import AuditStore, read_record
from bus.feeds import Feed
from bus.nats import Connection
from pdp.bundle import Bundle
from pubsub_core.client import known_profiles, profile_path, read_profile_file
from pubsub_core.errors import InvalidFilter
from pubsub_core.history import FluentLog, HistoryStore, Span
from pubsub_core.stores import TypeStore
from pubsub_core.trust import read_credential
from pubsub_core.types import Catalogue, EventType


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look."""

    domain: str
    trusted: Collection[PublicKey]
    """Whose releases count."""
    network: bytes = b""
    folders: Sequence[Path] = ()
    """Folders of applications, with the keys of their managers."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was found, and what is to be said of it."""

    question: Question
    evidence: Evidence
    definition: EventType
    trail: Trail
    remarks: list[str] = field(default_factory=list)


async def find_type(bus: Connection, sources: Sources, type_: str) -> tuple[Catalogue, EventType]:
    """The type that a name means. Raises UnknownType, AmbiguousType."""
    catalogue = Catalogue()
    await TypeStore(bus, catalogue, sources.network).refresh()
    return catalogue, catalogue.named(type_)


def attribute_of(catalogue: Catalogue, definition: EventType, name: str) -> str:
    """The UUID of an attribute. Raises InvalidFilter."""
    names = catalogue.names(definition.version)
    if name not in names:
        there = ", ".join(f"`{each}`" for each in names)
        raise InvalidFilter(name, f"is not an attribute of `{definition.name}`: it has {there}")
    return names[name].id


async def gather(
    bus: Connection, sources: Sources, store: HistoryStore, type_: str, attribute: str, within: Span, until: float,
    broker: str,
) -> Gathered:  # fmt: skip
    """Everything. The caller closes the trail. Raises UnknownType, InvalidFilter, InvalidPolicies, BusError."""
    catalogue, definition = await find_type(bus, sources, type_)
    question = Question(definition.id, attribute_of(catalogue, definition, attribute), within, until, broker)
    label = catalogue.label(definition)
    trail = Trail([f"/types/{label}"], [definition.name, label], attribute, within)
    remarks: list[str] = []
    try:
        remarks += await _read_trail(bus, sources.domain, trail)
        periods = await _periods(bus, sources)
        remarks += _about_policies(periods, within)
        keys = await find_keys(bus, catalogue, definition, sources.folders)
        known = list(_profiled())
        clients = [*known, *trail.clients(known)]
        marks = list(FluentLog(store.marks(), lambda _: None).marks())
        evidence = Evidence(catalogue, clients, periods, keys, marks)
        remarks += _about_brokers(evidence)
    except BaseException:
        trail.__exit__()
        raise
    return Gathered(question, evidence, definition, trail, remarks)


async def _read_trail(bus: Connection, domain: str, trail: Trail) -> list[str]:
    store = AuditStore(bus, domain, create=False)
    kept = await store.kept()
    if not kept:
        return ["there is no audit trail: nothing is known of who asked, nor of who was shown something"]
    async for page in store.read(kept.start - 1):
        trail.take(record for each in page.records if (record := read_record(each)) is not None)
    remarks = []
    if kept.start > 1:
        remarks.append(
            "the audit stream has discarded its oldest pages: who was shown what then is not counted"
        )
    if trail.dropped:
        remarks.append(f"{trail.dropped:,} decisions are missing in the audit stream")
    return remarks


async def _periods(bus: Connection, sources: Sources) -> list[Period]:
    """The releases that are kept, each from when it was released until the next was."""
    feed = Feed(bus, sources.domain, sources.trusted)
    found = [each.released for each in await feed.history() if each.released is not None]
    ends = [*(each.release.at for each in found[1:]), float("inf")]
    periods = []
    for each, end in zip(found, ends, strict=True):
        bundle = Bundle.unpack(await feed.store.get(feed.domain, each.release.chunks), each.release.bundle)
        periods.append(Period(Span(each.release.at, end), bundle, each.epoch))
    return periods


def _about_policies(periods: Sequence[Period], within: Span) -> Iterator[str]:
    if not periods:
        yield "there is no release of policies: nobody could read anything"
    elif periods[0].epoch > 1 and periods[0].span.start > within.start:
        since = datetime.fromtimestamp(periods[0].span.start, UTC).isoformat(" ", "seconds")
        yield f"releases from before {since} are not kept any more: what could be read live then is not counted"


def _about_brokers(evidence: Evidence) -> Iterator[str]:
    hosts = {host for each in evidence.clients for host in each.brokers}
    if evidence.keys.sealed and (unknown := sorted(hosts - evidence.keys.held.keys())):
        yield f"which keys {', '.join(unknown)} had is not known: counted as if it were all"
    if not evidence.keys.sealed:
        yield "no key manager's key is at hand, or nothing is sealed: brokers are counted as if they could open all"
    if any(not each.brokers for each in evidence.clients):
        yield "where some clients connect is not known: counted as if at a broker that could open all"


def _profiled() -> Iterator[Client]:
    """The clients whose profiles are on this machine."""
    for name in known_profiles():
        try:
            file = read_profile_file(profile_path(name))
            credential = read_credential(base64.b64decode(file.credential)).value
        except (AuthFabricError, ValueError):
            continue
        yield Client(credential, Span(end=credential.until), file.brokers)

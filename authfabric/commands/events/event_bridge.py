"""`authfabric event bridge`: what flows on a plain NATS subject or a Kafka topic, published as events of a type."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from authfabric.commands.events.bridge_sources import KAFKA, KafkaSettings, Source, open_source
from authfabric.commands.events.event_stream import As, Type
from authfabric.commands.events.event_values import parse_line
from authfabric.processes import process_vitals
from authfabric.terminal import (
    Exit,
    HealthAddress,
    HealthOptions,
    Json,
    Url,
    counted,
    err,
    fail,
    print_json,
    printable,
    run,
    with_option_types,
)
from authz import AuthFabricError
from authz.errors import UNREADABLE
from bus.wire import without_secrets
from pubsub_core import EventClient, InvalidEvent, NotKept, Publisher
from pubsub_core.client import read_cloud_event
from pubsub_core.errors import KeysAwaited
from pubsub_core.types import Attribute

SAID = 10
"""Bad messages that are told one by one."""
RETRY_SECONDS = 1.0
"""How soon messages are published again that the broker could not take yet."""


@dataclass
class Bridge:
    """Publishes messages as events, and counts what becomes of them."""

    publisher: Publisher
    attributes: Mapping[str, Attribute]
    names: Mapping[str, str] = field(default_factory=dict)
    """The member of a message in which each attribute stands, where that has another name."""
    cloud: bool = False
    """Whether messages are CloudEvents."""
    published: int = 0
    refused: int = 0
    """Messages that are no event of the type, or that a restriction excludes."""

    async def run(self, source: Source, stop: asyncio.Event) -> None:
        """Publish what comes until it is to stop, then what has come besides."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                reading = asyncio.create_task(source.read())
                await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    await asyncio.wait([reading])
                if not reading.cancelled():
                    await self._publish(reading.result(), stop)
                    await source.settle()
            await self._publish(source.rest(), stop)
        finally:
            stopping.cancel()

    async def _publish(self, messages: Sequence[bytes], stop: asyncio.Event) -> None:
        """Publish messages; returns when the broker has taken all that are events, and may be."""
        events = [values for each in messages if (values := self._read(each)) is not None]
        waits = False
        while events:
            before = self.publisher.refused
            try:
                events = [values for values in events if await self._sent(values)]
                await self.publisher.flush()
            except (KeysAwaited, NotKept) as error:
                if stop.is_set():
                    raise
                if not waits:
                    self._say(f"waiting: {error}")
                waits = True
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except InvalidEvent as error:  # all others were taken
                self._refuse(error, self.publisher.refused - before)
            self.published += len(events) - (self.publisher.refused - before)
            return

    async def _sent(self, values: dict[str, object]) -> bool:
        """Whether an event is on its way; one that does not fit the type is refused by itself. Raises KeysAwaited."""
        try:
            await self.publisher.publish(**values)
        except KeysAwaited:
            raise
        except InvalidEvent as error:
            self._refuse(error)
            return False
        return True

    def _read(self, data: bytes) -> dict[str, object] | None:
        try:
            return self.values(data)
        except InvalidEvent as error:
            self._refuse(error)
            return None

    def values(self, data: bytes) -> dict[str, object]:
        """The event that a message stands for: its members that are attributes, and no others. Raises InvalidEvent."""
        try:
            read = (
                read_cloud_event(data).data if self.cloud else msgspec.json.decode(data, type=dict[str, Any])
            )
        except UNREADABLE as error:
            raise InvalidEvent("message", f"must be one JSON object: {error}") from None
        members = {name: read.get(self.names.get(name, name)) for name in self.attributes}
        said = {name: value for name, value in members.items() if value is not None}
        if not said:
            raise InvalidEvent("message", f"has none of the attributes {', '.join(self.attributes)}")
        return parse_line(msgspec.json.encode(said).decode(), self.attributes)

    def _refuse(self, error: InvalidEvent, messages: int = 1) -> None:
        if self.refused < SAID:
            self._say(f"refused: {error}")
        self.refused += messages

    def _say(self, text: str) -> None:
        err.print(printable(text), highlight=False, soft_wrap=True)


class BridgeMetrics(Collector):
    """What a bridge has published, and what not."""

    def __init__(self, bridge: Bridge, source: Source) -> None:
        self._bridge = bridge
        self._source = source

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(
            "authfabric_bridge_published", "Messages published as events.", self._bridge.published
        )
        yield CounterMetricFamily(
            "authfabric_bridge_refused", "Messages that were no events.", self._bridge.refused
        )
        yield CounterMetricFamily(
            "authfabric_bridge_dropped", "Messages dropped because too many waited.", self._source.dropped
        )


@dataclass(frozen=True)
class _From:
    """What to read, and how."""

    url: str
    name: str
    group: str
    settings: KafkaSettings


@with_option_types
def bridge(
    *,
    subject: Annotated[
        str,
        typer.Argument(help="The plain NATS subject to listen to, such as `cameras.>`; or the Kafka topic."),
    ],
    type_: Type,
    source: Annotated[
        str,
        typer.Option("--source", help="Where it flows: a NATS server, or `kafka://HOST:PORT,HOST:PORT`."),
    ],
    profile: As = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="ATTRIBUTE=MEMBER", help="In which member an attribute stands. Repeatable."
        ),
    ] = None,
    cloud: Annotated[bool, typer.Option("--cloudevents", help="Messages are CloudEvents 1.0.")] = False,
    group: Annotated[
        str, typer.Option("--group", help="The Kafka consumer group. Default: `authfabric-` and the type.")
    ] = "",
    kafka: Annotated[
        Path | None,
        typer.Option("--kafka", metavar="FILE", help="How to connect to Kafka: security_protocol and so on."),
    ] = None,
    health: HealthOptions,
    url: Url = None,
    json: Json = False,
) -> None:
    """Publish the messages of a plain NATS subject or a Kafka topic as events, until SIGTERM or Ctrl-C.

    Messages are JSON objects. Only members that are attributes of the type are published, under the policies that hold
    for the profile, and sealed if the type is. A bridge from Kafka goes on where the last one of its group was.
    """
    pairs = [each.partition("=") for each in names or []]
    for attribute, equals, member in pairs:
        if not (attribute and equals and member):
            fail(f"--map: `{attribute}` must be ATTRIBUTE=MEMBER", Exit.USAGE)
    if (kafka or group) and not source.startswith(KAFKA):
        fail(f"--group and --kafka are for a --source that begins with {KAFKA}", Exit.USAGE)
    try:
        wanted = _From(source, subject, group or f"authfabric-{type_}", KafkaSettings.read(kafka))
    except AuthFabricError as error:
        fail(error, Exit.USAGE)
    said = {attribute: member for attribute, _, member in pairs}
    run(_bridge(wanted, type_, profile, said, cloud, health.address(), url, json))


async def _bridge(
    wanted: _From,
    type_: str,
    profile: str | None,
    names: Mapping[str, str],
    cloud: bool,
    health: HealthAddress,
    url: str | None,
    json: bool,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with (
        process_vitals(health) as vitals,
        EventClient.connect(url, profile=profile) as client,
        open_source(wanted.url, wanted.name, wanted.group, wanted.settings) as source,
    ):
        publisher = await client.publisher(type_)
        known = {each.name: each for each in client.catalogue.attributes(publisher.type.version).values()}
        _check_names(names, list(known))
        bridging = Bridge(publisher, known, names, cloud)
        vitals.begin([client.bus], BridgeMetrics(bridging, source), able=lambda: client.joined)
        if json:
            ready = {"ready": True, "url": without_secrets(wanted.url), "serves": [wanted.name]}
            print_json({**ready, "health": vitals.address})
        else:
            said = f"{wanted.name} is published as {type_}; health on {vitals.address}"
            err.print(f"[green]ready[/]: {said}", highlight=False, soft_wrap=True)
        try:
            await bridging.run(source, stop)
        finally:
            err.print(
                f"ended: {counted(bridging.published, 'event')} published,"
                f" {counted(bridging.refused, 'message')} refused, {source.dropped:,} dropped",
                highlight=False,
            )


def _check_names(names: Mapping[str, str], known: Sequence[str]) -> None:
    for each in names:
        if each not in known:
            raise InvalidEvent(each, f"is no attribute of the type: it has {', '.join(known)}")

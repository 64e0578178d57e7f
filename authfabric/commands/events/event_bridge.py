"""`authfabric event bridge`: what flows on a plain NATS subject, published as events of a type: governed and sealed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import typer

from authfabric.commands.events.event_stream import As, Type
from authfabric.commands.events.event_values import parse_line
from authfabric.terminal import Exit, Json, Url, counted, err, fail, print_json, run
from bus.nats import Connection
from pubsub_core import EventClient, InvalidEvent, Publisher
from pubsub_core.client import read_cloud_event
from pubsub_core.types import Attribute

MOST_WAITING = 65_536
"""Messages that may wait for the broker; what comes beyond is dropped, and counted."""
SAID = 10
"""Bad messages that are told one by one."""


@dataclass
class Bridged:
    """What came, and what became of it."""

    published: int = 0
    refused: int = 0
    """Messages that are no event of the type."""
    dropped: int = 0
    """Messages for which there was no room."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The member of a message in which each attribute stands, where that has another name."""

    def values(self, data: bytes, attributes: Mapping[str, Attribute], cloud: bool) -> dict[str, object]:
        """The event that a message stands for: its members that are attributes, and no others. Raises InvalidEvent."""
        try:
            read = read_cloud_event(data).data if cloud else msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidEvent("message", f"must be one JSON object: {error}") from None
        members = {name: read.get(self.names.get(name, name)) for name in attributes}
        said = {name: value for name, value in members.items() if value is not None}
        if not said:
            raise InvalidEvent("message", f"has none of the attributes {', '.join(attributes)}")
        return parse_line(msgspec.json.encode(said).decode(), attributes)


def bridge(
    subject: Annotated[str, typer.Argument(help="The plain NATS subject to listen to, such as `cameras.>`.")],
    type_: Type,
    source: Annotated[str, typer.Option("--source", help="The NATS server on which it flows.")],
    profile: As = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="ATTRIBUTE=MEMBER", help="In which member an attribute stands. Repeatable."
        ),
    ] = None,
    cloud: Annotated[bool, typer.Option("--cloudevents", help="Messages are CloudEvents 1.0.")] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Publish the messages of a plain NATS subject as events of a type, until SIGTERM or Ctrl-C.

    Messages are JSON objects. Only members that are attributes of the type are published, under the policies that hold
    for the profile, and sealed if the type is.
    """
    pairs = [each.partition("=") for each in names or []]
    for attribute, equals, member in pairs:
        if not (attribute and equals and member):
            fail(f"--map: `{attribute}` must be ATTRIBUTE=MEMBER", Exit.USAGE)
    bridged = Bridged(names={attribute: member for attribute, _, member in pairs})
    run(_bridge(subject, type_, source, profile, bridged, cloud, url, json))
    err.print(
        f"ended: {counted(bridged.published, 'event')} published, {counted(bridged.refused, 'message')} refused, "
        f"{bridged.dropped:,} dropped",
        highlight=False,
    )


async def _bridge(
    subject: str,
    type_: str,
    source: str,
    profile: str | None,
    bridged: Bridged,
    cloud: bool,
    url: str | None,
    json: bool,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    messages: asyncio.Queue[bytes | None] = asyncio.Queue()

    def hear(data: bytes) -> None:
        if messages.qsize() >= MOST_WAITING:
            bridged.dropped += 1
        else:
            messages.put_nowait(data)

    async with (
        EventClient.connect(url, profile=profile) as client,
        Connection(source, name="event-bridge") as plain,
    ):
        publisher = await client.publisher(type_)
        known = client.catalogue.attributes(publisher.type.version).values()
        _check_names(bridged.names, [each.name for each in known])
        await plain.listen(subject, lambda subject, reply, data, headers: hear(bytes(data)))
        await plain.flush()
        if json:
            print_json({"ready": True, "url": source, "serves": [subject]})
        else:
            err.print(f"[green]ready[/]: {subject} is published as {type_}", highlight=False)
        sending = asyncio.create_task(
            _send(messages, publisher, {each.name: each for each in known}, bridged, cloud)
        )
        await stop.wait()
        messages.put_nowait(None)
        await sending


def _check_names(names: Mapping[str, str], known: Sequence[str]) -> None:
    for each in names:
        if each not in known:
            raise InvalidEvent(each, f"is no attribute of the type: it has {', '.join(known)}")


async def _send(
    messages: asyncio.Queue[bytes | None],
    publisher: Publisher,
    attributes: Mapping[str, Attribute],
    bridged: Bridged,
    cloud: bool,
) -> None:
    """Publish what comes, as fast as the broker takes it, until None comes."""
    while (data := await messages.get()) is not None:
        try:
            await publisher.publish(**bridged.values(data, attributes, cloud))
            bridged.published += 1
            if messages.empty():
                await publisher.flush()
        except InvalidEvent as error:
            bridged.refused += 1
            if bridged.refused <= SAID:
                err.print(f"refused: {error}", highlight=False, markup=False, soft_wrap=True)
    await publisher.flush()

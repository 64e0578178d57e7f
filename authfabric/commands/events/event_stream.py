"""`authfabric event publish|subscribe|replay|tail`: events from and to the terminal, under a client's profile."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from difflib import get_close_matches
from typing import Annotated, TypeVar

import msgspec
import typer

from authfabric.commands.events.event_values import (
    event_document,
    event_text,
    gap_document,
    parse_line,
    parse_pairs,
    parse_time,
)
from authfabric.terminal import Exit, Url, counted, err, fail, print_json, printable, run, say
from pubsub_core import Delivered, EventClient, Gap, InvalidEvent, Refused, Subscriber, UnknownType
from pubsub_core.client import (
    DurableEvent,
    ProfileRefused,
    Publisher,
    read_cloud_event,
    read_profile,
    to_cloud_event,
)
from pubsub_core.errors import AmbiguousType, CredentialRefused, KeysAwaited

Result = TypeVar("Result")

KEYS_SECONDS = 10.0
"""How long to wait for a broker that has only just started to get the keys of a sealed type."""
KEYS_PAUSE = 0.2
ACKNOWLEDGED = 32
"""Maximum printed events of a durable subscription that are acknowledged together; fewer as soon as none waits."""

Type = Annotated[str, typer.Argument(metavar="TYPE", help="The name of the type.")]
As = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="PROFILE",
        help="Who asks: the name of a profile, or its file. Default: AUTHFABRIC_PROFILE, or the only one there is.",
    ),
]
Filter = Annotated[str, typer.Argument(metavar="[FILTER]", help="Which events: \"drug = 'morphine'\".")]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Past events first, from then on: `1h` ago, `beginning`, or a time."
    ),
]
To = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Up to then; `1h` ago, or a time. Default: now.")
]
Count = Annotated[int, typer.Option("-n", "--count", min=0, help="End after so many events; 0 for never.")]
Lines = Annotated[bool, typer.Option("--json", help="Print one JSON object for each event.")]


Cloud = Annotated[
    bool, typer.Option("--cloudevents", help="Events are CloudEvents 1.0, as JSON, one a line.")
]


def publish(
    type_: Type,
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...",
            help="The event's attributes. Without any: JSON objects on stdin, one a line.",
        ),
    ] = None,
    profile: As = None,
    cloud: Cloud = False,
    url: Url = None,
) -> None:
    """Publish an event, or one for each line of standard input. Exit code 0: the broker has taken all of them."""
    if not values and sys.stdin.isatty():
        fail("say what to publish: NAME=VALUE, or JSON objects on standard input", Exit.USAGE)
    count = _run(_publish(type_, values or [], profile, url, cloud), profile)
    say(f"published {counted(count, 'event')} of {printable(type_)}")


def subscribe(
    type_: Type,
    filter_: Filter = "",
    profile: As = None,
    from_: From = None,
    durable: Annotated[
        str,
        typer.Option(
            "--durable",
            metavar="NAME",
            help="Go on where the last subscriber of this name ended; nothing is lost.",
        ),
    ] = "",
    count: Count = 0,
    cloud: Cloud = False,
    url: Url = None,
    json: Lines = False,
) -> None:
    """Print events as they come, until Ctrl-C; those that policies do not withhold."""
    start = _time("--from", from_)
    if durable and start is not None:
        fail("--durable goes on where it was, and begins now at first: it takes no --from", Exit.USAGE)

    async def work() -> None:
        known = read_profile(profile)
        async with EventClient.connect(url, profile=known) as client:
            if durable:
                await tell_shared(client, durable)
            reader = (
                await client.subscriber(type_, filter_, durable=durable, manual_ack=True)
                if durable
                else await client.subscriber(type_, filter_, from_=start)
            )
            if not count:
                err.print(f"listening to {type_} as {known.name}; Ctrl-C ends it", highlight=False)
            await _print(reader, count, json or cloud, show_type=False, cloud=cloud)

    _run(work(), profile)


async def tell_shared(client: EventClient, durable: str) -> None:
    """Say that somebody reads a durable subscription already, or did and was killed: then its events are shared out."""
    broker = next((each.broker for each in await client.durables() if each.name == durable), "")
    if broker:
        err.print(
            f"`{durable}` is being read at the broker {broker}: events are shared out; what a reader that was killed"
            " had not acknowledged comes after some seconds",
            highlight=False,
            soft_wrap=True,
        )


def replay(
    type_: Type,
    filter_: Filter = "",
    profile: As = None,
    from_: From = None,
    to: To = None,
    during: Annotated[
        str,
        typer.Option("--during", metavar="FLUENT", help="Those while this held: \"investigation('n1')\"."),
    ] = "",
    count: Count = 0,
    url: Url = None,
    json: Lines = False,
) -> None:
    """Print past events in order of time, and end."""
    start, end = _time("--from", from_), _time("--to", to)

    async def work() -> None:
        async with EventClient.connect(url, profile=profile) as client:
            past = await client.replay(type_, filter_, from_=start, to=end, during=during)
            await _print(past, count, json, show_type=False)

    _run(work(), profile)


def tail(
    types: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TYPE]...", help="Default: all types that the profile subscribes to."),
    ] = None,
    profile: As = None,
    from_: From = None,
    count: Count = 0,
    url: Url = None,
    json: Lines = False,
) -> None:
    """Print events of several types as they come, for whoever operates them: no more than policy lets them see."""
    start = _time("--from", from_)

    async def work() -> None:
        known = read_profile(profile)
        wanted = types or list(known.types)
        if not wanted:
            raise ProfileRefused(known.name, "subscribes to no type: name one")
        async with EventClient.connect(url, profile=known) as client:
            readers = []
            for each in wanted:
                try:
                    readers.append(await client.subscriber(each, from_=start))
                except (Refused, UnknownType) as error:
                    err.print(
                        f"without {printable(each)}: {printable(str(error))}", highlight=False, soft_wrap=True
                    )
            if readers:
                await _print(_merged(readers), count, json, show_type=True)

    _run(work(), profile)


async def _publish(
    type_: str, values: Sequence[str], profile: str | None, url: str | None, cloud: bool
) -> int:
    async with EventClient.connect(url, profile=profile) as client:
        publisher = await client.publisher(type_)
        attributes = {
            each.name: each for each in client.catalogue.attributes(publisher.type.version).values()
        }
        if values:
            await _publish_one(publisher, parse_pairs(values, attributes))
            return 1
        count = 0
        async for line in _lines():
            if line.strip():
                try:
                    await publisher.publish(**parse_line(_data(line, type_) if cloud else line, attributes))
                except InvalidEvent as error:
                    await publisher.flush()
                    raise InvalidEvent(
                        error.attribute,
                        f"{error.problem} (line {count + 1}; {count} before it were published)",
                    ) from None
                count += 1
        await publisher.flush()
        return count


def _data(line: str, type_: str) -> str:
    """What a CloudEvent says, if it is of this type. Raises InvalidEvent."""
    event = read_cloud_event(line)
    if event.type != type_:
        raise InvalidEvent("type", f"must be `{type_}`, not `{event.type}`")
    return msgspec.json.encode(event.data).decode()


async def _publish_one(publisher: Publisher, values: dict[str, object]) -> None:
    """Publish one event; a broker that has only just started may be without keys for a moment."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + KEYS_SECONDS
    while True:
        try:
            await publisher.publish(**values)
            await publisher.flush()
            return
        except KeysAwaited:
            if loop.time() > deadline:
                raise
            await asyncio.sleep(KEYS_PAUSE)


async def _lines() -> AsyncIterator[str]:
    """The lines of standard input, read aside so that the session is kept up meanwhile."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line


async def _print(
    reader: AsyncIterator[Delivered | Gap], count: int, json: bool, show_type: bool, cloud: bool = False
) -> None:
    seen, printed = 0, list[DurableEvent]()
    async for event in reader:
        if isinstance(event, Gap):
            if json and not cloud:
                print_json(gap_document(event), line=True)
            else:  # CloudEvents have no gaps
                err.print(f"gap: {event}", highlight=False, markup=False, soft_wrap=True)
        else:
            seen += 1
            if json:
                print_json(to_cloud_event(event) if cloud else event_document(event), line=True)
            else:
                say(event_text(event, show_type or bool(event.type.name != getattr(reader, "name", ""))))
            if isinstance(event, DurableEvent):
                printed.append(event)
        last = bool(seen) and seen == count
        if printed and (last or len(printed) == ACKNOWLEDGED or not printed[0].reader.unread):
            await asyncio.gather(*(each.ack() for each in printed))
            printed.clear()
        if last:
            return


async def _merged(readers: Sequence[Subscriber]) -> AsyncIterator[Delivered | Gap]:
    """What comes from several subscriptions, as it comes."""
    waiting = {asyncio.ensure_future(anext(each)): each for each in readers}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                reader = waiting.pop(each)
                yield each.result()
                waiting[asyncio.ensure_future(anext(reader))] = reader
    finally:
        for each in waiting:
            each.cancel()


def _time(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError:
        fail(f"{option}: `{text}` must be like 1h, `beginning` or 2030-01-31T08:00:00Z", Exit.USAGE)


def _run(work: Coroutine[object, object, Result], profile: str | None) -> Result:
    """Run a command's work; where it is refused, say where it stands what the client may."""
    return run(_explained(work, profile))


async def _explained(work: Coroutine[object, object, Result], profile: str | None) -> Result:
    try:
        return await work
    except CredentialRefused:
        raise
    except Refused as error:
        who = read_profile(profile).name
        place = f"what {who} may is under `clients.{who}` and `rules` in the application's file"
        hint = f"{place}; `authfabric audit tail` shows what was decided"
        plain = str(error).endswith("is not permitted")
        fail(f"{error}: {hint}" if plain else error, Exit.DENIED)
    except UnknownType as error:
        mine = read_profile(profile)
        near = get_close_matches(error.name, {*mine.types, *mine.publishes}, 1)
        hint = f"did you mean `{near[0]}`?" if near else "`authfabric type list` shows which there are"
        fail(
            error
            if isinstance(error, AmbiguousType)
            else f"there is no event type `{error.name}` here: {hint}"
        )

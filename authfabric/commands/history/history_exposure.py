"""`authfabric history exposure`: who could have read an attribute of past events, and who did."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated

import typer

from authfabric.commands.events.event_values import parse_time
from authfabric.commands.history.history_store import KeptHistory
from authfabric.files import (
    CONNECT_SECONDS,
    NetworkKey,
    Trust,
    find_url,
    read_network_key,
    trusted_keys,
)
from authfabric.terminal import (
    Exit,
    Json,
    Url,
    counted,
    fail,
    print_json,
    printable,
    run,
    say,
    say_table,
    with_option_types,
)
from authz.extras import needing
from bus.identity import data_folder
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pubsub_core.history import Span

if TYPE_CHECKING:
    from authfabric.exposure import ClientExposure, Counts, Exposure, Gathered, Sources
    from pdp.bundle import Bundle
    from pubsub_core.history import HistoryStore

    _Reading = Callable[[Gathered, Sequence[str]], Awaitable[Counts]]

APPLICATIONS = "applications"


@with_option_types
def exposure(
    *,
    type_: Annotated[str, typer.Option("--type", help="The type of the events, by name.")],
    attribute: Annotated[str, typer.Option("--attribute", help="The attribute in question.")],
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Published from then on: `8h` ago, or a time.")
    ] = "beginning",
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="Published before then.")] = "now",
    proposed: Annotated[
        Path | None,
        typer.Option(help="A folder of policies, or a bundle: what would they have prevented?"),
    ] = None,
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--keys",
            help="The folder of an application, with its manager's key and its brokers'. Repeatable."
            " Default: those of this user.",
        ),
    ] = None,
    domain: Annotated[str, typer.Option(help="The domain whose policies were in force.")] = DEFAULT_DOMAIN,
    trust: Trust = None,
    network_key: NetworkKey = None,
    source: KeptHistory,
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="URL", help="Have a Spark read a large history: `local[*]`, `spark://…`."
        ),
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Find out who could have read an attribute of past events, who did, and what other policies had prevented.

    Under the policies, credentials and keys of then, as far as they are known; what is not known is said.
    """
    from authfabric.exposure import Sources
    from authfabric.releases import PolicySources

    within = Span(_time("--from", from_), _time("--to", to))
    if within.start >= within.end:
        fail("--from must be before --to", Exit.USAGE)
    logging.getLogger("authfabric.rules").setLevel(logging.ERROR)  # what rules withhold is counted here
    where = find_url(url)
    folders = keys if keys is not None else sorted((data_folder() / APPLICATIONS).glob("*"))
    with source.open() as store:
        bundle = None if proposed is None else PolicySources(where, domain, trust).find(str(proposed)).bundle
        sources = Sources(domain, trusted_keys(trust, where), read_network_key(network_key), tuple(folders))
        asked = _Asked(where, sources, type_, attribute, within, source.broker, bundle)
        with _reading(asked, store, source, master) as reading:
            found = run(_find(asked, store, reading))
    if json:
        print_json(found)
    else:
        _show(found)


@dataclass(frozen=True)
class _Asked:
    url: str
    sources: Sources
    type: str
    attribute: str
    within: Span
    broker: str
    proposed: Bundle | None


async def _find(asked: _Asked, store: HistoryStore, reading: _Reading | None) -> Exposure:
    from authfabric.exposure import find_exposure, gather

    async with connect(asked.url, name="history", connect_seconds=CONNECT_SECONDS) as bus:
        found = await gather(
            bus, asked.sources, store, asked.type, asked.attribute, asked.within, time(), asked.broker
        )
    with found.trail:
        read = None if reading is None else partial(reading, found)
        return await find_exposure(store, found, asked.proposed, read)


@contextlib.contextmanager
def _reading(
    asked: _Asked, store: HistoryStore, source: KeptHistory, master: str | None
) -> Iterator[_Reading | None]:
    """What has Spark read events, if that is wanted; a session is begun when there is something to read."""
    if master is None:
        yield None
        return
    from authfabric.exposure import Place, ShareTask, count_on_spark, split

    with needing("spark"):
        from spark_eval.runtime import SparkOptions, lazy_session
    setting = source.setting
    place = Place(setting.url, setting.keys() if setting.keys is not None else (setting.secret,))
    with lazy_session(SparkOptions(master)) as session:

        async def read(found: Gathered, names: Sequence[str]) -> Counts:
            question = found.question
            parts = split(question, store)
            task = ShareTask(place, question, found.evidence, asked.proposed, tuple(names), parts)
            return count_on_spark(session, task)

        yield read


def _time(option: str, text: str) -> float:
    try:
        return parse_time(text)
    except ValueError:
        fail(f"{option}: `{text}` must be like 8h, `beginning`, `now` or 2030-01-31T08:00:00Z", Exit.USAGE)


def _show(found: Exposure) -> None:
    what = f"[bold]{printable(found.attribute)}[/] of {printable(found.type)}"
    say(
        f"{what}: {counted(found.events, 'event')}, published from {_when(found.start)} to {_when(found.end)}"
    )
    if found.clients:
        headings = ("client", "could read", "as published", "altered", "perhaps", "was shown", "asked")
        more = ("prevented", "of what it was shown") if found.proposed else ()
        say_table((*headings, *more), [_row(each, found.proposed) for each in found.clients])
    if found.others:
        say(f"{counted(found.others, 'other client')} could read nothing of it")
    for each in found.brokers:
        say(f"{printable(each.broker)} had the key from {_when(each.start)} to {_when(each.end)}")
    for remark in found.remarks:
        say(f"[dim]note: {printable(remark)}[/]")


def _row(client: ClientExposure, proposed: bool) -> tuple[str, ...]:
    could, shown = client.could, client.shown
    row = (
        printable(client.name),
        f"{could.full:,}",
        f"{could.live:,}",
        f"{could.altered:,}",
        f"{could.unknown:,}",
        f"{shown.events:,}" if shown is not None else "-",
        f"{client.asked:,}",
    )
    if not proposed:
        return row
    blurred = f", {could.blurred:,} altered" if could.blurred else ""
    of_shown = could.disclosed_prevented
    return (*row, f"{could.prevented or 0:,}{blurred}", "-" if of_shown is None else f"{of_shown:,}")


def _when(at: float | None) -> str:
    if at is None:
        return "now"
    return (
        "the beginning" if not at else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    )

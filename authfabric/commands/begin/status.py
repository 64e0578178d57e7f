"""`authfabric status`: what is in force, who decides by it, and how the servers are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from socket import gethostname
from time import time

import typer

from authfabric.files import CONNECT_SECONDS, Trust, find_url, trusted_keys
from authfabric.overview import FabricView, MemberView, ReleaseView, State, look
from authfabric.terminal import Exit, Json, Url, counted, fail, print_json, printable, run, say, say_table
from authz import AuthFabricError, PublicKey
from bus.feeds import MemberPoll
from bus.nats import connect
from bus.stores import StreamState
from bus.wire import DEFAULT_DOMAIN

LISTEN_SECONDS = 1.6
"""Time within which members answer a roll call, and replicas name those who do not."""
CLOCK_SECONDS = 1.0
"""Offset of a clock below which it is not worth a word."""
_COLOURS = {
    State.IN_FORCE: "green",
    State.BEHIND: "yellow",
    State.BLOCKED: "red",
    State.WAITING: "yellow",
    State.SILENT: "red",
}


def status(
    domain: str = typer.Option(DEFAULT_DOMAIN, help="The domain to look at."),
    trust: Trust = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show what is in force, which member decides by what, and how servers and streams are.

    A member decides by what is in force if it says, signed, that its release has the same hash. Exit code 1 if a
    member does not, or a store is not well.
    """
    where = find_url(url)
    try:
        trusted = trusted_keys(trust, where)
    except AuthFabricError as error:
        fail(error, Exit.USAGE)
    view = run(_look(where, domain, trusted))
    well = is_well(view)
    if json:
        print_json({"well": well, **_document(view)})
    else:
        _show(view)
    if not well:
        raise typer.Exit(Exit.DENIED)


async def _look(url: str, domain: str, trusted: frozenset[PublicKey]) -> FabricView:
    async with (
        connect(
            url, name="status", connect_seconds=CONNECT_SECONDS, admission_seconds=CONNECT_SECONDS
        ) as bus,
        MemberPoll(bus, domain, detailed=True) as poll,
    ):
        await asyncio.sleep(LISTEN_SECONDS)
        return await look(bus, domain, trusted, poll)


def is_well(view: FabricView) -> bool:
    """Whether every member decides by what is in force, and every stream that may be looked at has its quorum."""
    return view.complete and not view.problem and all(each.quorum or each.hidden for each in view.streams)


def _document(view: FabricView) -> dict[str, object]:
    streams = [{**_fields(each), "quorum": each.quorum} for each in view.streams]
    return {**_fields(view), "complete": view.complete, "streams": streams}


def _fields(value: FabricView | StreamState) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _show(view: FabricView) -> None:
    say(f"[bold]in force[/]   {_release(view.in_force, view.domain)}")
    if view.problem:
        say(f"           [red]{printable(view.problem)}[/]")
    say(f"[bold]server[/]     {printable(view.server)}\n")
    if view.members:
        heading = (
            "member", "kind", "state", "release", "signed by", "since", "clock", "version", "process", "trusts",
        )  # fmt: skip
        say_table(heading, map(_member_row, view.members))
        for each in view.members:
            if each.problem:
                say(f"  [red]{printable(each.name)}[/]: {printable(each.problem)}")
    else:
        say("[yellow]no member was heard[/]: nobody decides by this domain's policies")
    if view.nodes:
        say("")
        say_table(("node", "leads", "keeps", "state"), map(list, _node_rows(view)))
    if view.streams:
        say("")
        say_table(("stream", "messages", "bytes", "of", "copies", "state"), map(_stream_row, view.streams))
    for name, waiting in view.reading:
        if waiting:
            say(f"{printable(name)} has {counted(waiting, 'message')} of events to read")


def _release(release: ReleaseView | None, domain: str) -> str:
    if release is None:
        return (
            f"[yellow]nothing[/]: `{printable(domain)}` has no verified release; `authfabric policy push DIR`"
        )
    said = f": {printable(release.message)}" if release.message else ""
    forced = f" [yellow](forced: {printable(release.forced)})[/]" if release.forced else ""
    return (
        f"release [bold]{release.number}[/] ({release.hash[:12]}), pushed {moment(release.at)} by"
        f" {release.signer[:12]}{said}{forced}"
    )


def _member_row(member: MemberView) -> tuple[str, ...]:
    behind = f" by {member.lag}" if member.lag and member.state is State.BEHIND else ""
    return (
        printable(member.name),
        printable(member.kind),
        f"[{_COLOURS[member.state]}]{member.state}{behind}[/]",
        f"{member.number} {member.hash[:12]}" if member.hash else "-",
        member.signer[:12] or "-",
        moment(member.since) if member.since else "-",
        clock_words(member.clock),
        printable(member.version) or "-",
        process_words(member),
        " ".join(each[:12] for each in member.trust) or "-",
    )


def process_words(member: MemberView) -> str:
    """Which process a member is, and where if not on this machine."""
    if not member.pid:
        return "-"
    return f"{member.pid}" if member.host == gethostname() else f"{member.pid} on {printable(member.host)}"


def clock_words(ahead: float | None) -> str:
    """How a clock is, compared with this one."""
    if ahead is None:
        return "-"
    return "right" if abs(ahead) < CLOCK_SECONDS else f"[red]{ahead:+,.0f} s[/]"


def _node_rows(view: FabricView) -> Iterator[tuple[str, ...]]:
    for each in view.nodes:
        state = f"[red]behind with {', '.join(each.behind)}[/]" if each.behind else "[green]current[/]"
        yield printable(each.name), str(each.leads), str(each.keeps), state


def _stream_row(stream: StreamState) -> tuple[str, ...]:
    if stream.problem:
        state = (
            "not visible to these credentials" if stream.hidden else f"[red]{printable(stream.problem)}[/]"
        )
        return stream.name, "-", "-", "-", "-", state
    state = "[green]well[/]" if stream.quorum else "[red]no quorum[/]"
    most = f"{stream.most_bytes:,}" if stream.most_bytes > 0 else "-"
    return stream.name, f"{stream.messages:,}", f"{stream.bytes:,}", most, str(len(stream.copies) or 1), state


def moment(at: float) -> str:
    """A time for people: without the date if it is today."""
    when = datetime.fromtimestamp(at).astimezone()
    today = datetime.fromtimestamp(time()).astimezone().date() == when.date()
    return when.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")

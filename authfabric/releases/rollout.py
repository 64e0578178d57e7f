"""Watching a release reach everyone who applies policies."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import TypeAlias

import msgspec
from rich.console import RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from authfabric.terminal import err, printable
from authz.release import Released
from bus.errors import BusError
from bus.feeds import DEFAULT_LEASE, REPEAT_SECONDS, Feed, MemberPoll, MemberTable, Standing
from bus.nats import Connection
from bus.wire import MemberStatus

LOOK_SECONDS = 0.05
"""Time between two looks at who has said what."""
LATER_SECONDS = 1.0
"""Time between two looks for releases that came after the one that is waited for."""
CALL_SECONDS = 2.0
"""Time between two roll calls."""
LISTEN_SECONDS = 1.5
"""Time after the first roll call by which members have answered, and replicas have named those who have not."""
SHOWN = 30
"""Maximum members that are shown one by one."""

Show: TypeAlias = Callable[[Released, "Standings"], None]


@dataclass(frozen=True, slots=True)
class Standings:
    """The members, and how each stands to a release."""

    members: dict[str, MemberStatus]
    standings: dict[str, Standing]

    @classmethod
    def of(cls, rollcall: MemberTable, releases: Collection[str], now: float) -> Standings:
        named = rollcall.named()
        return cls(
            {name: entry.status for name, entry in named.items()},
            {name: entry.standing(releases, now) for name, entry in named.items()},
        )


_COLOURS = {
    Standing.APPLIED: "green",
    Standing.BEHIND: "yellow",
    Standing.REFUSED: "red",
    Standing.SILENT: "red",
}


class Rollout(msgspec.Struct, frozen=True):
    """How far a release has come: complete if nobody can go by an older one any more."""

    complete: bool
    applied: list[str]
    """Who says, signed, that exactly this release or a later one is in force there."""
    lapsed: list[str]
    """Who has not said so, and whose lease has ended since the release was stored."""
    stragglers: dict[str, str]
    """Who may still go by an older release, and why."""
    bound: float | None
    """Seconds from now after which no straggler can matter any more; None if one has no lease.

    Where no straggler is known, and not everybody was heard, it is what is left of the usual lease.
    """


class Watch:
    """Calls the roll from before a release until everyone has it: `async with watching(bus, feed) as watch`."""

    def __init__(self, caller: MemberPoll, feed: Feed) -> None:
        self._caller = caller
        self._feed = feed
        self._since = monotonic()
        self._call_at = self._since + CALL_SECONDS

    async def wait(self, released: Released, seconds: float, quiet: bool) -> Rollout:
        """Wait up to `seconds` until nobody can go by an older release, showing who has this one and who has not."""
        stored = monotonic()
        releases, looked, read_all = {released.hash}, stored, False
        with _display(quiet) as show:
            while True:
                now = monotonic()
                if now >= self._call_at:
                    self._call_at = now + CALL_SECONDS
                    self._caller.call()
                if now - looked > LATER_SECONDS:
                    releases |= await self._later(released)
                    looked = now
                standings = Standings.of(self._caller.members, releases, now)
                show(released, standings)
                rollout = _result(standings, now - stored)
                over = not rollout.stragglers and self._has_heard_all(now)
                if over and read_all:
                    return rollout
                if now > stored + seconds:
                    return rollout if over else _unfinished(rollout, now - stored)
                read_all = over and await self._caller.read_all()
                if not read_all:
                    await asyncio.sleep(LOOK_SECONDS)

    def _has_heard_all(self, now: float) -> bool:
        """Whether every member has had time to speak, and a replica has named those who have not.

        Where no replica answers, everybody is waited for who would speak by itself.
        """
        passed = now - self._since
        return passed > (LISTEN_SECONDS if self._caller.answered else REPEAT_SECONDS)

    async def _later(self, released: Released) -> set[str]:
        """The releases that came after it: whoever has one of those has gone past this one."""
        try:
            return {each.hash for each in await self._feed.since(released)}
        except BusError:
            return set()


def _result(standings: Standings, passed: float) -> Rollout:
    applied, lapsed, stragglers, left = [], [], dict[str, str](), [0.0]
    for name, standing in standings.standings.items():
        status = standings.members[name]
        lease = float("inf") if status.lease is None else status.lease
        if standing is Standing.APPLIED:
            applied.append(name)
        elif passed > lease:
            lapsed.append(name)
        else:
            stragglers[name] = _why(status, standing)
            left.append(lease - passed)
    bound = None if max(left) == float("inf") else max(left)
    return Rollout(bool(applied) and not stragglers, applied, lapsed, stragglers, bound)


def _unfinished(rollout: Rollout, passed: float) -> Rollout:
    """Nobody is known to be behind, and not everybody has been heard: others may be until their lease ends."""
    bound = rollout.bound if rollout.stragglers else max(0.0, DEFAULT_LEASE - passed)
    return msgspec.structs.replace(rollout, complete=False, bound=bound)


@contextlib.asynccontextmanager
async def watching(bus: Connection, feed: Feed) -> AsyncIterator[Watch]:
    async with MemberPoll(bus, feed.domain) as caller:
        yield Watch(caller, feed)


def _why(status: MemberStatus, standing: Standing) -> str:
    holds = f"release {status.epoch} ({status.release[:12]})" if status.release else "no release"
    limit = "it has no lease" if status.lease is None else f"its lease is {status.lease:g} s"
    if standing is Standing.SILENT:
        return f"not heard any more; it last went by {holds}, and {limit}"
    return status.problem or f"still goes by {holds}"


def _show_nothing(*_: object) -> None:
    """For who reads the result instead."""


@contextlib.contextmanager
def _display(quiet: bool) -> Iterator[Show]:
    if quiet:
        yield _show_nothing
    elif err.is_terminal:
        with Live(console=err, refresh_per_second=10) as live:
            yield lambda released, standings: live.update(_picture(released, standings))
    else:
        yield _Lines()


class _Lines:
    """For where there is no terminal: a line whenever something changes."""

    def __init__(self) -> None:
        self._said: dict[str, Standing] = {}

    def __call__(self, released: Released, standings: Standings) -> None:
        for name, standing in standings.standings.items():
            if self._said.get(name) is not standing:
                why = standings.members[name].problem if standing is Standing.REFUSED else ""
                err.print(
                    f"{printable(name)}: {standing}{f': {printable(why)}' if why else ''}", highlight=False
                )
        self._said = standings.standings


def _picture(released: Released, standings: Standings) -> RenderableType:
    table = Table(title=str(released), expand=False)
    for column in ("member", "kind", "release", "state"):
        table.add_column(column)
    lagging_first = sorted(standings.standings.items(), key=lambda each: each[1] is Standing.APPLIED)
    for name, standing in lagging_first[:SHOWN]:
        status = standings.members[name]
        state = Text(standing.value, _COLOURS[standing])
        if status.problem and standing is not Standing.APPLIED:
            state.append(": ").append_text(Text.from_markup(printable(status.problem), style="dim"))
        table.add_row(*map(printable, (name, status.kind, f"{status.epoch} {status.release[:12]}")), state)
    for standing, count in sorted(Counter(standing for _, standing in lagging_first[SHOWN:]).items()):
        table.add_row(f"and {count} more", "", "", Text(standing.value, _COLOURS[standing]))
    return table

"""Watching a release reach everyone who applies policies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from time import monotonic
from typing import TypeAlias

import msgspec
from rich.console import RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from authfabric.terminal import err
from authz.release import Released
from bus.connection import Connection
from bus.errors import BusError
from bus.feed import Feed
from bus.messages import MemberStatus
from bus.roll_service import RollKeeper
from bus.rollcall import Rollcall, Standing

LOOK_SECONDS = 0.05
LATER_SECONDS = 1.0
"""Time between two looks for releases that came after the one that is waited for."""
LISTEN_SECONDS = 1.5
"""Everyone speaks every second: whoever is there was heard after this."""

Standings: TypeAlias = Mapping[str, Standing]
Show: TypeAlias = Callable[[Released, Rollcall, Standings], None]

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
    """Seconds from now after which no straggler can matter any more; None if one has no lease."""


class Watch:
    """Listens from before a release until everyone has it: `async with watching(bus, feed) as watch`."""

    def __init__(self, keeper: RollKeeper, feed: Feed) -> None:
        self._rollcall = keeper.rollcall
        self._feed = feed
        self._since = monotonic()

    async def wait(self, released: Released, seconds: float, quiet: bool) -> Rollout:
        """Wait until nobody can go by an older release, at most so long, showing who has this one and who has not."""
        stored = monotonic()
        releases, looked = {released.hash}, stored
        with _display(quiet) as show:
            while True:
                now = monotonic()
                if now - looked > LATER_SECONDS:
                    releases |= await self._later(released)
                    looked = now
                standings = self._rollcall.standings(releases, now)
                show(released, self._rollcall, standings)
                rollout = self._result(standings, now - stored)
                if now > stored + seconds or (not rollout.stragglers and now - self._since > LISTEN_SECONDS):
                    return rollout
                await asyncio.sleep(LOOK_SECONDS)

    async def _later(self, released: Released) -> set[str]:
        """The releases that came after it: whoever has one of those has gone past this one."""
        try:
            return {each.hash for each in await self._feed.since(released)}
        except BusError:
            return set()

    def _result(self, standings: Standings, passed: float) -> Rollout:
        applied, lapsed, stragglers, left = [], [], dict[str, str](), [0.0]
        for name, standing in standings.items():
            status = self._rollcall[name]
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


@contextlib.asynccontextmanager
async def watching(bus: Connection, feed: Feed) -> AsyncIterator[Watch]:
    async with RollKeeper(bus, feed.domain) as keeper:
        yield Watch(keeper, feed)


def _why(status: MemberStatus, standing: Standing) -> str:
    holds = f"release {status.epoch} ({status.release[:12]})" if status.release else "no release"
    limit = "it has no lease" if status.lease is None else f"its lease is {status.lease:g} s"
    if standing is Standing.SILENT:
        return f"not heard any more; it last went by {holds}, and {limit}"
    return status.problem or f"still goes by {holds}"


@contextlib.contextmanager
def _display(quiet: bool) -> Iterator[Show]:
    if quiet:
        yield lambda *_: None
    elif err.is_terminal:
        with Live(console=err, refresh_per_second=10) as live:
            yield lambda released, rollcall, standings: live.update(_picture(released, rollcall, standings))
    else:
        yield _Lines()


class _Lines:
    """For where there is no terminal: a line whenever something changes."""

    def __init__(self) -> None:
        self._said: dict[str, Standing] = {}

    def __call__(self, released: Released, rollcall: Rollcall, standings: Standings) -> None:
        for name, standing in standings.items():
            if self._said.get(name) is not standing:
                err.print(f"{name}: {standing}", highlight=False)
        self._said = dict(standings)


def _picture(released: Released, rollcall: Rollcall, standings: Standings) -> RenderableType:
    table = Table(title=str(released), expand=False)
    for column in ("member", "kind", "release", "state"):
        table.add_column(column)
    for name, standing in standings.items():
        status = rollcall[name]
        state = Text(standing.value, _COLOURS[standing])
        if status.problem and standing is not Standing.APPLIED:
            state.append(f": {status.problem}", "dim")
        table.add_row(name, status.kind, f"{status.epoch} {status.release[:12]}", state)
    return table

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
from bus.connection import Connection
from bus.messages import MemberStatus
from bus.roll_service import RollKeeper
from bus.rollcall import Rollcall, Standing

LOOK_SECONDS = 0.05
LISTEN_SECONDS = 1.5
"""Everyone speaks every second: whoever is there was heard after this."""

Standings: TypeAlias = Mapping[str, Standing]
Show: TypeAlias = Callable[[int, Rollcall, Standings], None]

_COLOURS = {
    Standing.APPLIED: "green",
    Standing.BEHIND: "yellow",
    Standing.REFUSED: "red",
    Standing.SILENT: "red",
}


class Rollout(msgspec.Struct, frozen=True):
    """How far a release has come: complete if everyone has applied it, otherwise who has not, and why."""

    complete: bool
    applied: list[str]
    stragglers: dict[str, str]


class Watch:
    """Listens from before a release until everyone has it: `async with watching(bus, domain) as watch`."""

    def __init__(self, keeper: RollKeeper) -> None:
        self._rollcall = keeper.rollcall
        self._since = monotonic()

    async def wait(self, epoch: int, seconds: float, quiet: bool) -> Rollout:
        """Wait until everyone has applied the release, at most so long, showing who has and who has not."""
        deadline = monotonic() + seconds
        with _display(quiet) as show:
            while True:
                now = monotonic()
                self._rollcall.forget(now)
                standings = self._rollcall.standings(epoch, now)
                show(epoch, self._rollcall, standings)
                done = all(standing is Standing.APPLIED for standing in standings.values())
                if now > deadline or (done and now - self._since > LISTEN_SECONDS):
                    return self._result(standings)
                await asyncio.sleep(LOOK_SECONDS)

    def _result(self, standings: Standings) -> Rollout:
        applied = [name for name, standing in standings.items() if standing is Standing.APPLIED]
        stragglers = {
            name: _why(self._rollcall[name], standing)
            for name, standing in standings.items()
            if standing is not Standing.APPLIED
        }
        return Rollout(bool(applied) and not stragglers, applied, stragglers)


@contextlib.asynccontextmanager
async def watching(bus: Connection, domain: str) -> AsyncIterator[Watch]:
    async with RollKeeper(bus, domain) as keeper:
        yield Watch(keeper)


def _why(status: MemberStatus, standing: Standing) -> str:
    if standing is Standing.SILENT:
        return f"not heard any more; it last decided by epoch {status.epoch}"
    return status.problem or f"still decides by epoch {status.epoch}"


@contextlib.contextmanager
def _display(quiet: bool) -> Iterator[Show]:
    if quiet:
        yield lambda *_: None
    elif err.is_terminal:
        with Live(console=err, refresh_per_second=10) as live:
            yield lambda epoch, rollcall, standings: live.update(_picture(epoch, rollcall, standings))
    else:
        yield _Lines()


class _Lines:
    """For where there is no terminal: a line whenever something changes."""

    def __init__(self) -> None:
        self._said: dict[str, Standing] = {}

    def __call__(self, epoch: int, rollcall: Rollcall, standings: Standings) -> None:
        for name, standing in standings.items():
            if self._said.get(name) is not standing:
                err.print(f"{name}: {standing}", highlight=False)
        self._said = dict(standings)


def _picture(epoch: int, rollcall: Rollcall, standings: Standings) -> RenderableType:
    table = Table(title=f"release {epoch}", expand=False)
    for column in ("member", "kind", "epoch", "state"):
        table.add_column(column)
    for name, standing in standings.items():
        status = rollcall[name]
        state = Text(standing.value, _COLOURS[standing])
        if status.problem and standing is not Standing.APPLIED:
            state.append(f": {status.problem}", "dim")
        table.add_row(name, status.kind, str(status.epoch), state)
    return table

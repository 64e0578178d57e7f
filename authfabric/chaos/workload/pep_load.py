"""A service under load: a PEP that asks at a steady rate, and records every answer. Run as a process of its own."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic

import msgspec

from authfabric.chaos.record import Answers, Audited, Entry, Feed, Question, Recorder, Unanswered
from authfabric.chaos.workload.policies import ACTION, DOMAIN, FORBIDDEN, QUESTIONS
from authfabric.terminal import print_json
from authz import Decision
from authz.release import Released
from bus.identity import find_credentials
from bus.runtime import run_fast
from pep import Enforcer, Recycling

CALLERS = 8
"""Callers of a PEP, each of whom waits for one answer before the next question."""
TICK_SECONDS = 0.05
"""How often a caller asks a few questions, one after the other."""
DEADLINE = 10.0
"""Seconds that a question may take: a client needs some to find another server."""
WRITE_SECONDS = 0.5


class Asking(msgspec.Struct, frozen=True):
    """What a service is told to do."""

    name: str
    url: str
    root: str
    record: str
    rate: int
    """Questions a second."""
    seed: int
    caching: bool = True
    audit: bool = False


@dataclass
class Window:
    """Like answers since they were last written."""

    count: int = 0
    first: float = 0.0
    last: float = 0.0
    slowest: float = 0.0


@dataclass
class Tally:
    """What a PEP has answered since the last time that was written."""

    pep: str
    windows: dict[tuple[Question, bool, int, tuple[str, ...], str], Window] = field(default_factory=dict)
    others: list[Entry] = field(default_factory=list)
    feed: tuple[int, str] = (0, "")
    """The number and hash of the newest release that the PEP had verified when it was last looked at."""

    def follow(self, released: Released | None) -> None:
        feed = (released.epoch, released.hash) if released is not None else (0, "")
        if feed != self.feed:
            self.feed = feed
            self.others.append(Feed(monotonic(), self.pep, *feed))

    def take(self, question: Question, decision: Decision, asked: float, answered: float) -> None:
        if not decision.decided:
            self.others.append(Unanswered(self.pep, question, str(decision.reason), asked, answered))
            return
        epoch, hash_ = self.feed
        known = hash_ if decision.epoch == epoch else ""
        key = (question, decision.allowed, decision.epoch, decision.policies, known)
        window = self.windows.get(key)
        if window is None:
            window = self.windows[key] = Window(first=answered)
        window.count += 1
        window.last = max(window.last, asked)
        window.slowest = max(window.slowest, answered - asked)

    def drain(self) -> list[Entry]:
        windows, self.windows = self.windows, {}
        others, self.others = self.others, []
        answers = (
            Answers(
                self.pep, question, allowed, epoch, each.count, each.first, each.last, each.slowest, by, hash_
            )
            for (question, allowed, epoch, by, hash_), each in windows.items()
        )
        return [*others, *answers]


async def ask(asking: Asking) -> None:
    """Ask until a signal ends it."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    found = find_credentials(asking.url)
    async with Enforcer.connect(
        asking.url,
        domain=DOMAIN,
        deadline=DEADLINE,
        name=asking.name,
        credentials=found.credentials if found is not None else None,
        trust=[asking.root],
        recycling=Recycling() if asking.caching else None,
        audit=asking.audit,
    ) as pep:
        print_json({"url": asking.url})
        tally = Tally(asking.name)
        calls = [_call(pep, asking, tally, stop, number) for number in range(CALLERS)]
        await asyncio.gather(*calls, _write(pep, tally, Recorder(Path(asking.record)), stop))


async def _call(pep: Enforcer, asking: Asking, tally: Tally, stop: asyncio.Event, number: int) -> None:
    chance = random.Random(asking.seed * 1000 + number)
    questions = [(text, *text.split(" ")) for text in (*QUESTIONS, *FORBIDDEN)]
    few = max(1, round(asking.rate * TICK_SECONDS / CALLERS))
    turn = monotonic() + chance.random() * TICK_SECONDS
    while not stop.is_set():
        turn = max(
            turn + few * CALLERS / asking.rate, monotonic() - 1.0
        )  # what was missed is caught up in part
        await asyncio.sleep(max(0.0, turn - monotonic()))
        for _ in range(few):
            text, subject, thing = chance.choice(questions)
            if pep.secondary is not None:
                tally.follow(pep.secondary.feed.applied)
            asked = monotonic()
            decision = await pep.check(subject, thing, ACTION)
            if pep.secondary is not None:
                tally.follow(pep.secondary.feed.applied)
            tally.take(text, decision, asked, monotonic())


async def _write(pep: Enforcer, tally: Tally, record: Recorder, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await asyncio.wait([asyncio.ensure_future(stop.wait())], timeout=WRITE_SECONDS)
        entries = tally.drain()
        if pep.audit is not None and pep.audit.stored:
            entries.append(Audited(monotonic(), pep.audit.trail.writer, pep.audit.stored))
        record(*entries)


def main() -> None:
    run_fast(partial(ask, msgspec.json.decode(sys.argv[1], type=Asking))())


if __name__ == "__main__":
    main()

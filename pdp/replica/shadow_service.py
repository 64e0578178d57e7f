"""Shadowing: a share of live requests is decided again, off the way of the answers; differences raise an alarm."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from authz import Decision, Request
from bus.errors import BusError
from bus.nats import Connection
from bus.runtime import Work, begin_work
from bus.wire import Alarm, pack, subjects
from pdp.bundle import PolicySet

if TYPE_CHECKING:
    from pdp.replica.shadow import Divergence, Judge

WAITING = 256
"""Maximum samples that wait to be decided again; more are dropped, and counted."""
EFFORT = 0.05
"""The share of the time that deciding again may take."""
REMEMBERED = 1024
"""Maximum kinds of differences remembered, so that each raises one alarm."""

_log = logging.getLogger("authfabric.pdp")

Observer: TypeAlias = Callable[[Sequence[Request], Sequence[Decision]], None]
"""Sees requests as they were decided, and the decisions, and must be quick."""


class _Sample(NamedTuple):
    shadowed: _Shadowed
    request: Request
    decision: Decision


class _Shadowed:
    """One set of policies under watch."""

    def __init__(self, policies: PolicySet) -> None:
        self._policies = policies
        self._judge: Judge | None = None

    def divergences(self, request: Request, decision: Decision) -> list[Divergence]:
        if self._judge is None:
            from pdp.replica.shadow import (
                Judge,  # py-abac takes long to import: only those who shadow pay for it
            )

            self._judge = Judge(self._policies)
        return list(self._judge.divergences(request, decision))


class Shadow:
    """`async with Shadow(0.01, alarm) as shadow`, and `shadow.watch(policies)` for whoever decides by them."""

    def __init__(self, share: float, alarm: Callable[[Divergence], None], *, effort: float = EFFORT) -> None:
        self._share = share
        self._alarm = alarm
        self._effort = effort
        self._queue: asyncio.Queue[_Sample] = asyncio.Queue(WAITING)
        self._known: set[object] = set()
        self._working: Work | None = None
        self.compared = 0
        self.differences = 0
        self.dropped = 0
        """Samples for which there was no time."""

    async def __aenter__(self) -> Self:
        self._working = begin_work(self._work)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._working is not None:
            await self._working.end()

    def watch(self, policies: PolicySet) -> Observer:
        """What must see the requests that are decided by these policies."""
        shadowed = _Shadowed(policies)
        share, chance = self._share, random.random

        def observe(requests: Sequence[Request], decisions: Sequence[Decision]) -> None:
            for request, decision in zip(requests, decisions, strict=True):
                if chance() < share:
                    self._take(_Sample(shadowed, request, decision))

        return observe

    async def drain(self) -> None:
        """Return when everything sampled so far was decided again."""
        await self._queue.join()

    def _take(self, sample: _Sample) -> None:
        try:
            self._queue.put_nowait(sample)
        except asyncio.QueueFull:
            self.dropped += 1

    async def _work(self) -> None:
        while True:
            sample = await self._queue.get()
            start = monotonic()
            try:
                found = await asyncio.to_thread(sample.shadowed.divergences, sample.request, sample.decision)
                self._note(found)
            except Exception:
                _log.exception("a request could not be decided a second time")
            finally:
                self._queue.task_done()
            # Python runs one thread at a time: what this one takes is taken from the answers.
            await asyncio.sleep((monotonic() - start) * (1 / self._effort - 1))

    def _note(self, found: list[Divergence]) -> None:
        self.compared += 1
        self.differences += bool(found)
        for each in found:
            kind = (
                each.against,
                each.decision.epoch,
                each.decision.policies,
                each.other.allowed,
                each.other.policies,
            )
            if kind not in self._known and len(self._known) < REMEMBERED:
                self._known.add(kind)
                self._alarm(each)


def alarm_on(bus: Connection, domain: str, member: str) -> Callable[[Divergence], None]:
    """Raises an alarm in the log and on the bus, with the full case."""

    def alarm(found: Divergence) -> None:
        _log.error("a decision differs from what it should be: %s", found)
        case = Alarm(member, domain, found.against, found.request, found.decision, found.other)
        try:
            bus.send(subjects.alarms(domain), pack(case))
        except BusError as error:
            _log.warning("the alarm could not be sent: %s", error)

    return alarm

"""Waiting until replicas that were started decide by the release that is in force."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from time import monotonic

from authfabric.releases.rollout import LOOK_SECONDS
from authz import AuthFabricError, PublicKey
from authz.release import Released
from bus.feeds import MemberPoll
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pep import Enforcer

PATIENCE_SECONDS = 20.0
"""Time for a replica that serves to have its release confirmed, and for a first decision."""


class NotDeciding(AuthFabricError):
    """Replicas run, and do not decide by the release in force: `problem` says which, and why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the replicas run and cannot decide: {problem}")
        self.problem = problem


@contextlib.asynccontextmanager
async def deciding(
    url: str, names: Collection[str], released: Released | None, root: PublicKey
) -> AsyncIterator[None]:
    """Replicas are started inside the block; it ends once all decide by this release. Raises NotDeciding.

    Each has said that the release is in force, if there is one; and a PEP that trusts the root got a decision.
    """
    async with contextlib.AsyncExitStack() as stack:
        bus = await stack.enter_async_context(connect(url, name="up"))
        poll = await stack.enter_async_context(MemberPoll(bus, DEFAULT_DOMAIN))
        yield
        if released is not None:
            await _applied(poll, names, released)
    async with Enforcer.connect(
        url, name="up", trust=[root], deadline=PATIENCE_SECONDS, recycling=None, audit=False
    ) as pep:
        decision = await pep.check("authfabric", "/authfabric/up", "probe")
        if not decision.decided:
            raise NotDeciding(str(decision))


async def _applied(poll: MemberPoll, names: Collection[str], released: Released) -> None:
    until = monotonic() + PATIENCE_SECONDS
    while missing := _missing(poll, names, released):
        if monotonic() > until:
            raise NotDeciding("; ".join(f"`{name}`: {why}" for name, why in missing.items()))
        await asyncio.sleep(LOOK_SECONDS)


def _missing(poll: MemberPoll, names: Collection[str], released: Released) -> dict[str, str]:
    """The replicas in which neither this release nor a later one is in force, and why."""
    statuses = {name: each.status for name, each in poll.members.named().items()}
    missing = dict[str, str]()
    for name in names:
        status = statuses.get(name)
        if status is None:
            missing[name] = "it has not said what it decides by"
        elif not status.ok or (status.release != released.hash and status.epoch <= released.epoch):
            missing[name] = status.problem or f"it still goes by release {status.epoch}, not by {released}"
    return missing

"""Copies of streams, compared: one that is damaged is made again from the others.

A copy whose files were altered may lead, and then members are told that there is no release. So every server's copy is
read after a server has started, and now and then. One that lacks what others have gives way as leader, and is given up
and made anew: the stream has one copy fewer for a moment, and then as many as before. Which copy goes the server
decides, never the leader's; so if it is the wrong one, that is a whole one afterwards, another whole one leads, and it
is done once more. At no time are there fewer than two.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import inf
from time import monotonic

from bus.errors import StoreUnavailable
from bus.nats import Connection
from bus.services.provisioning import COMPARED
from bus.stores import (
    STORAGE,
    Group,
    Lack,
    StorageClass,
    compare_copies,
    look_at_group,
    resize,
    step_down,
)

COPIES = 3
"""How many copies each stream has in a cluster, unless its storage class says otherwise."""
COMPARE_SECONDS = 3600.0
"""How often copies are compared, also if no server was started anew."""
CONFIRM_SECONDS = 3.0
"""Maximum random delay before a finding is confirmed: several services may have found the same."""
COPYING_SECONDS = 3.0
"""Seconds in which a server that copies a stream makes progress."""
GIVE_UP_SECONDS = (2.0, 5.0, 10.0)
"""Seconds for a server to delete a copy that it gives up. If added again sooner, it keeps its files."""
MOST_ATTEMPTS = 6
"""Maximum times that copies of one stream are given up."""
SETTLE_SECONDS = 30.0
"""How long servers may take to agree on a leader or to copy a stream."""
LOOK_SECONDS = 0.1

_log = logging.getLogger("authfabric.copies")


class CopyRepair:
    """Looks after the copies of the streams of a network, for whoever may change them."""

    def __init__(
        self, connection: Connection, storage: Callable[[], Iterable[StorageClass]] = lambda: STORAGE
    ) -> None:
        """`storage` tells how parcels of events are kept."""
        self._connection = connection
        self._storage = storage
        self._compared: dict[str, tuple[frozenset[str], float]] = {}
        """For each stream, which servers had started when its copies were compared, and when that was."""
        self._fewer: dict[str, float] = {}
        """Since when streams have a copy fewer than they should."""
        self.healed = 0
        """How many damaged copies were made anew."""

    async def check(self, servers: frozenset[str]) -> None:
        """Compare copies that were not compared since one of these servers has started, and heal what is damaged.

        Raises StoreUnavailable if some could not be compared: a server is away or behind.
        """
        if not self._connection.clustered:
            return
        problems = []
        for stream, copies in self._streams().items():
            before, at = self._compared.get(stream, (frozenset[str](), -inf))
            if servers <= before and monotonic() - at < COMPARE_SECONDS:
                continue
            try:
                await self._check(stream, copies)
            except StoreUnavailable as error:
                problems.append(str(error))
            else:
                self._compared[stream] = servers, monotonic()
        if problems:
            raise StoreUnavailable("; ".join(problems))

    def _streams(self) -> Mapping[str, int]:
        """The streams with copies to compare, on disk, and how many each has."""
        parcels = {each.stream: each.replicas or COPIES for each in self._storage() if not each.memory}
        return {
            name: copies
            for name, copies in {**dict.fromkeys(COMPARED, COPIES), **parcels}.items()
            if copies >= COPIES
        }

    async def _check(self, stream: str, copies: int) -> None:
        group = await self._whole(stream, copies)
        if not group.leader or not (lacking := await compare_copies(self._connection, stream, group)):
            return
        await asyncio.sleep(random.uniform(0, CONFIRM_SECONDS))
        if lacking := await self._stuck(stream, copies, lacking):
            await self._heal(stream, copies, lacking)

    async def _whole(self, stream: str, copies: int) -> Group:
        """The servers of a stream, all of which say that they have it; it is given a copy that it lacks."""
        group = await look_at_group(self._connection, stream)
        if not group.leader or group.copies >= copies:
            self._fewer.pop(stream, None)
        elif monotonic() - self._fewer.setdefault(stream, monotonic()) > SETTLE_SECONDS and group.whole:
            await resize(self._connection, stream, copies)  # whoever healed it has not come to the end
            group = await self._until(stream, lambda each: each.whole and each.copies == copies)
        else:
            raise StoreUnavailable(f"{stream} has {group.copies} of {copies} copies")
        if group.leader and not group.whole:
            raise StoreUnavailable(f"{stream} has {len(group.current)} of {group.copies} copies")
        return group

    async def _stuck(self, stream: str, copies: int, before: Mapping[str, Lack]) -> Mapping[str, Lack]:
        """What servers lack and are not about to copy, as far as was seen before."""
        while True:
            now = await compare_copies(self._connection, stream, await self._whole(stream, copies))
            if not any(
                server in before and before[server].first < lack.first for server, lack in now.items()
            ):
                return now
            before = now
            await asyncio.sleep(COPYING_SECONDS)

    async def _heal(self, stream: str, copies: int, lacking: Mapping[str, Lack]) -> None:
        """Have copies given up and made anew from one that is whole, until all are."""
        for server, lack in lacking.items():
            _log.warning(
                "server `%s` cannot read %d messages of %s, number %d first: its copy is made anew",
                server, lack.count, stream, lack.first,
            )  # fmt: skip
        led, pauses = Counter[str](), iter(GIVE_UP_SECONDS)
        pause = next(pauses)
        for _ in range(MOST_ATTEMPTS):
            whole = (await self._whole(stream, copies)).current - lacking.keys()
            if not whole:
                break
            leader = min(whole, key=lambda each: (led[each], each))  # another leads: another copy is given up
            led[leader] += 1
            gone = await self._given_up(stream, leader, pause, copies)
            await asyncio.sleep(COPYING_SECONDS)
            now = await self._stuck(stream, copies, dict.fromkeys(gone, Lack(0, 0)))
            for server in lacking.keys() - now.keys():
                self.healed += 1
                _log.warning("server `%s` has a new copy of %s", server, stream)
            if not (lacking := now):
                return
            if gone & lacking.keys():  # it was added again too soon
                pause = next(pauses, pause)
        _log.error(
            "the copies of %s on %s stay damaged: empty the store of one server after the other",
            stream, ", ".join(f"`{each}`" for each in sorted(lacking)),
        )  # fmt: skip

    async def _given_up(self, stream: str, leader: str, pause: float, copies: int) -> frozenset[str]:
        """Let the stream have one copy fewer, then as many as before; whose was given up."""
        await self._lead(stream, leader)
        before = (await self._whole(stream, copies)).current
        await resize(self._connection, stream, copies - 1)
        group = await self._until(stream, lambda each: each.whole and each.copies == copies - 1)
        await asyncio.sleep(pause)
        await resize(self._connection, stream, copies)
        await self._until(stream, lambda each: each.whole and each.copies == copies)
        return before - group.current

    async def _lead(self, stream: str, server: str) -> None:
        if (await look_at_group(self._connection, stream)).leader != server:
            await step_down(self._connection, stream, server)
            await self._until(stream, lambda group: group.leader == server and group.whole)

    async def _until(self, stream: str, ready: Callable[[Group], bool]) -> Group:
        """The servers of a stream once they are as wanted. Raises StoreUnavailable if they are not in time."""
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                while True:
                    group = await self._look(stream)
                    if group is not None and ready(group):
                        return group
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise StoreUnavailable(f"the servers of {stream} do not agree") from None

    async def _look(self, stream: str) -> Group | None:
        """The servers of a stream; None while they change."""
        try:
            return await look_at_group(self._connection, stream)
        except StoreUnavailable:
            return None

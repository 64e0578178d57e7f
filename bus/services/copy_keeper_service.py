"""Copies of what is kept for a network, compared: one that is damaged is made anew from the others.

A copy whose files were altered may lead, and then members are told that there is no release. So every server's copy is
read after a server has started, and now and then. One that lacks what others have gives way as leader, and is given up
and made anew: the stream has one copy fewer for a moment, and then as many as before. Which copy goes the server
decides, never the leader's; so if it is the wrong one, another whole copy leads, and it is done once more. At no time
are there fewer than two.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence

from bus.errors import StoreUnavailable
from bus.nats import Connection
from bus.services.provisioning import COMPARED
from bus.stores import Group, look_at_group, read_copies, resize, step_down

COPIES = 3
"""How many copies each stream has in a cluster."""
MOST_MESSAGES = 100_000
"""Larger streams are not compared: their messages are listed one by one."""
CONFIRM_SECONDS = 3.0
"""Time within which it is looked a second time, at random: several services may have seen the same."""
GIVE_UP_SECONDS = (2.0, 5.0, 10.0)
"""Time for a server to delete a copy that it gives up, which nobody is told; if added sooner, it keeps its files."""
SETTLE_SECONDS = 30.0
"""How long servers may take to agree on a leader or to copy a stream."""
LOOK_SECONDS = 0.1

_log = logging.getLogger("authfabric.copies")


class CopyKeeper:
    """Looks after the copies of the streams of a network, for whoever may change them."""

    def __init__(self, connection: Connection, streams: Sequence[str] = COMPARED) -> None:
        self._connection = connection
        self._streams = streams
        self.healed = 0
        """How many damaged copies were made anew."""

    async def check(self) -> None:
        """Compare all copies of every stream, and heal what is damaged.

        Raises StoreUnavailable while a server is away or behind: then there is nothing to compare yet.
        """
        if not self._connection.clustered:
            return
        for stream in self._streams:
            group = await self._whole(stream)
            if group.leader and group.messages <= MOST_MESSAGES and await self._lacking(stream, group):
                await asyncio.sleep(random.uniform(0, CONFIRM_SECONDS))
                group = await self._whole(stream)
                lacking = await self._lacking(stream, group)
                for server, count in lacking.items():
                    await self._heal(stream, server, count, sorted(group.current - lacking.keys()))

    async def _whole(self, stream: str) -> Group:
        """The servers of a stream, all of which say that they have it; it is given a copy that it lacks."""
        group = await look_at_group(self._connection, stream)
        if (
            group.leader and group.whole and group.copies < COPIES
        ):  # whoever healed it before has not come to the end
            await resize(self._connection, stream, COPIES)
            group = await self._until(stream, lambda each: each.whole and each.copies == COPIES)
        if not group.whole:
            raise StoreUnavailable(f"{stream} has {len(group.current)} of {group.copies} copies")
        return group

    async def _lacking(self, stream: str, group: Group) -> Mapping[str, int]:
        """How many messages each server lacks, where it lacks any."""
        first = await read_copies(self._connection, stream, group)
        if len(set(first.values())) == 1:
            return {}
        # Messages come and go meanwhile: what another had before and after, all should have had in between.
        between = await read_copies(self._connection, stream, group)
        last = await read_copies(self._connection, stream, group)
        lasting = frozenset[int]().union(*(first[each] & last[each] for each in group.current))
        lacking = {server: len(lasting - numbers) for server, numbers in between.items()}
        return {server: count for server, count in lacking.items() if count}

    async def _heal(self, stream: str, server: str, count: int, whole: Sequence[str]) -> None:
        if not whole:
            _log.error(
                "server `%s` cannot read %d messages of %s, and no other can read all", server, count, stream
            )
            return
        _log.warning(
            "server `%s` cannot read %d messages of %s: its copy is made anew", server, count, stream
        )
        for pause in GIVE_UP_SECONDS:
            for leader in whole:
                if await self._given_up(stream, server, leader, pause):
                    break
            if server not in await self._lacking(stream, await self._whole(stream)):
                self.healed += 1
                _log.warning("server `%s` has a new copy of %s", server, stream)
                return
        _log.error("server `%s` keeps its damaged copy of %s: empty its store", server, stream)

    async def _given_up(self, stream: str, server: str, leader: str, pause: float) -> bool:
        """Let the stream have one copy fewer, then as many as before; whether it was this server's that was missing."""
        await self._lead(stream, leader)
        await resize(self._connection, stream, COPIES - 1)
        group = await self._until(stream, lambda each: each.whole and each.copies == COPIES - 1)
        gone = server not in group.current
        if gone:
            await asyncio.sleep(pause)
        await resize(self._connection, stream, COPIES)
        await self._until(stream, lambda each: each.whole and each.copies == COPIES)
        return gone

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

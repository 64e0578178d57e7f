"""What can happen to what a server keeps: lost, gone back, altered, or without room for more."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

from authfabric.chaos.faults.plan import Planned
from authfabric.chaos.faults.stream_watch import STREAMS, StoreWatch
from authfabric.chaos.testbed import Cluster
from bus.wire import subjects

REPLACE_SECONDS = 5.0
"""The least time for which a server is away whose disk is replaced or fails: the others notice."""
RECOVER_SECONDS = 10.0
"""How long a server may take to notice that there is room again, before its operator starts it anew."""


@dataclass
class StoreFaults:
    """The faults of one server's store at a time; the other two are whole."""

    cluster: Cluster
    watch: StoreWatch
    copies: Path

    async def copy_all(self) -> None:
        """Keep a copy of every server's store as it is now, for later."""
        for node in self.cluster.servers:
            await asyncio.to_thread(self.cluster.copy_store, node, self.copies / node)

    async def empty(self, planned: Planned) -> str:
        node = self.cluster.pick(planned.choice)
        await self.cluster.stop_node(node, signal.SIGKILL)
        await _replaced(planned)
        await asyncio.to_thread(self.cluster.replace_store, node, None)
        await self.cluster.start_node(node)
        return node

    async def restore(self, planned: Planned) -> str:
        """Have a server begin with the copy that was made at the start."""
        node = self.cluster.pick(planned.choice)
        await self.cluster.stop_node(node, signal.SIGKILL)
        await _replaced(planned)
        await asyncio.to_thread(self.cluster.replace_store, node, self.copies / node)
        await self.cluster.start_node(node)
        return node

    async def corrupt(self, planned: Planned) -> str:
        """Alter bytes of one stream's newest block, of a server that was killed, or ended and has left its index.

        Not of the audit stream in the latter case: see what is not promised, in docs/reliability.md.
        """
        node = self.cluster.pick(planned.choice)
        stream = STREAMS[planned.choice // 3 % len(STREAMS)]
        ended = stream != subjects.AUDIT and planned.choice // 3 // len(STREAMS) % 2
        await self.cluster.stop_node(node, signal.SIGTERM if ended else signal.SIGKILL)
        await _replaced(planned)
        blocks = sorted(self.cluster.store(node).rglob(f"{stream}/msgs/*.blk"))
        if blocks:
            data = bytearray(blocks[-1].read_bytes())
            for place in range(len(data) // 2, min(len(data) // 2 + 8, len(data))):
                data[place] ^= 0xFF
            blocks[-1].write_bytes(bytes(data))
        await self.cluster.start_node(node)
        return f"{node}, {stream}"

    async def fill(self, planned: Planned) -> str:
        """Leave the server with the small disk no room for a while."""
        node, disk = self.cluster.small, self.cluster.disk
        assert disk is not None
        await asyncio.to_thread(disk.fill)
        await asyncio.sleep(planned.seconds)
        disk.free()
        if await self.watch.healthy(RECOVER_SECONDS):
            return node
        await self.cluster.stop_node(node)
        await self.cluster.start_node(node)
        return f"{node}, started anew afterwards"


async def _replaced(planned: Planned) -> None:
    """Return when a server comes back whose disk was replaced or has failed."""
    await asyncio.sleep(max(REPLACE_SECONDS, planned.seconds))

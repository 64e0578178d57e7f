"""What can happen to what a server keeps: lost, gone back, altered, or without room for more."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

from authfabric.chaos.faults.plan import Planned
from authfabric.chaos.faults.stream_watch import STREAMS, StoreWatch
from authfabric.chaos.testbed import Cluster

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
        """Alter bytes of a block of one stream, of a server that was killed, or ended and has left its index."""
        node = self.cluster.pick(planned.choice)
        stream, choice = STREAMS[planned.choice // 3 % len(STREAMS)], planned.choice // 3 // len(STREAMS)
        await self.cluster.stop_node(node, signal.SIGTERM if choice % 2 else signal.SIGKILL)
        await _replaced(planned)
        blocks = sorted(
            self.cluster.store(node).rglob(f"{stream}/msgs/*.blk"), key=lambda each: int(each.stem)
        )
        if blocks:
            block = blocks[choice // 2 % len(blocks)]
            data = bytearray(block.read_bytes())
            for place in range(len(data) // 2, min(len(data) // 2 + 8, len(data))):
                data[place] ^= 0xFF
            block.write_bytes(bytes(data))
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

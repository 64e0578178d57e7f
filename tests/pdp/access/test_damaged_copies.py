"""A server of three whose files were altered is noticed, gives way as leader, and gets a new copy from the others."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bus import Connection, NatsServer, cluster
from bus.errors import StoreUnavailable
from bus.identity.credentials import Credentials
from bus.server.server_config import ServiceKeys
from bus.stores import ReleaseStore, look_at_group, read_copies, step_down
from bus.wire.subjects import RELEASES
from tests.secured import Secured
from tests.waiting import eventually, once_it_works

STREAM = f"KV_{RELEASES}"
DOMAIN = "default"
RELEASED = 8


class Place:
    """Three secured servers with releases, and whoever may look at their copies."""

    def __init__(self, world: Secured, servers: list[NatsServer], bus: Connection) -> None:
        self.world, self.bus = world, bus
        self.servers = {server.name: server for server in servers}
        self.store = ReleaseStore(bus)

    async def release(self, count: int) -> None:
        revision = 0
        for number in range(count):
            data = f"release {number} ".encode() * 100
            revision = await once_it_works(
                lambda data=data, revision=revision: self.store.commit(DOMAIN, data, revision),
                StoreUnavailable,
            )

    async def whole(self) -> str:
        """Return when all servers say that they have everything; the leader."""

        async def look() -> str:
            group = await look_at_group(self.bus, STREAM)
            if not group.whole or group.copies != len(self.servers):
                raise StoreUnavailable("a copy is behind")
            return group.leader

        return await once_it_works(look, StoreUnavailable)

    async def lead(self, name: str) -> None:
        await step_down(self.bus, STREAM, name)
        await once_it_works(lambda: self._leads(name), AssertionError)

    async def _leads(self, name: str) -> None:
        with contextlib.suppress(StoreUnavailable):
            assert (await look_at_group(self.bus, STREAM)).leader == name
            return
        raise AssertionError

    async def alter(self, name: str) -> None:
        """Alter the newest release on a server's disk while it is away; it was ended in order, so its index stays."""
        server = self.servers[name]
        await server.stop()
        _alter(Path(server._folder))
        await server.start()

    async def missing(self) -> dict[str, int]:
        """How many releases each server cannot read."""
        group = await look_at_group(self.bus, STREAM)
        copies = await read_copies(self.bus, STREAM, group)
        return {name: RELEASED - len(numbers) for name, numbers in sorted(copies.items())}


def _alter(store: Path) -> None:
    folder = next(store.rglob(f"{STREAM}/msgs"))
    assert (folder / "index.db").exists()
    block = max(folder.glob("*.blk"))
    data = bytearray(block.read_bytes())
    data[-100] ^= 0xFF
    block.write_bytes(data)


@pytest.fixture
async def place(tmp_path) -> AsyncIterator[Place]:
    world = Secured(tmp_path)
    own = Credentials(ServiceKeys.of(world.service).member, tls=world.tls(world.service))
    async with cluster(3, jetstream=True, security=world.security, credentials=own) as servers:
        world.url = ",".join(server.url for server in servers)
        async with Connection(world.url, credentials=own) as bus:
            yield Place(world, list(servers), bus)


async def test_a_damaged_copy_is_seen_while_another_leads_and_made_anew(place, caplog):
    async with place.world.access():
        await place.release(RELEASED)
    leader = await place.whole()
    damaged = min(place.servers.keys() - {leader})
    await place.alter(damaged)
    await place.whole()
    assert await place.missing() == {name: int(name == damaged) for name in sorted(place.servers)}
    await place.lead(damaged)
    assert not await place.store.readable(RELEASED)  # what members would be told from now on
    async with place.world.access() as access:
        await eventually(lambda: access.copies.healed)
    assert f"server `{damaged}` cannot read 1 messages of {STREAM}" in caplog.text
    await place.whole()
    assert await place.missing() == dict.fromkeys(sorted(place.servers), 0)
    await place.lead(damaged)
    assert await place.store.readable(RELEASED)

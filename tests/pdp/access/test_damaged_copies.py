"""A server of three whose files were altered is noticed, gives way as leader, and gets a new copy from the others."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from bus import Connection, NatsServer, cluster
from bus.errors import StoreUnavailable
from bus.identity.credentials import Credentials
from bus.server.server_config import ServiceKeys
from bus.stores import (
    Lack,
    ReleaseStore,
    compare_copies,
    look_at_group,
    read_copies,
    step_down,
    stream_copies,
)
from bus.wire import subjects
from bus.wire.subjects import PARCELS, RELEASES
from tests.secured import Secured
from tests.waiting import eventually, once_it_works

STREAM = f"KV_{RELEASES}"
DOMAIN = "default"
RELEASED = 8
CARRIED = 50


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

    async def carry(self, count: int) -> None:
        """Store parcels of events."""
        subject = subjects.parcel(DOMAIN, subjects.TypePlace(subjects.FILE, "owner", "type"), "of", "1")
        js = self.bus.jetstream()
        for number in range(count):
            await once_it_works(lambda number=number: js.publish(subject, b"%d " % number * 100), Exception)

    async def whole(self, stream: str = STREAM) -> str:
        """Return when all servers say that they have everything; the leader."""

        async def look() -> str:
            group = await look_at_group(self.bus, stream)
            if not group.whole or group.copies != len(self.servers):
                raise StoreUnavailable("a copy is behind")
            return group.leader

        return await once_it_works(look, StoreUnavailable)

    async def lead(self, name: str, stream: str = STREAM) -> None:
        async def leads() -> None:
            await step_down(self.bus, stream, name)
            for _ in range(50):
                with contextlib.suppress(StoreUnavailable):
                    if (await look_at_group(self.bus, stream)).leader == name:
                        return
                await asyncio.sleep(0.02)
            raise StoreUnavailable("another leads still")

        await once_it_works(leads, StoreUnavailable)

    async def alter(self, name: str, stream: str = STREAM, share: float = 1.0) -> None:
        """Alter a message on a server's disk while it is away; it was ended in order, so its index stays."""
        server = self.servers[name]
        await server.stop()
        _alter(Path(server._folder), stream, share)
        await server.start()

    async def empty(self, name: str) -> None:
        """Have a server start with an empty disk."""
        server = self.servers[name]
        await server.stop(signal.SIGKILL)
        shutil.rmtree(Path(server._folder) / "jetstream")
        await server.start()

    async def compare(self, stream: str) -> Mapping[str, Lack]:
        with contextlib.suppress(StoreUnavailable):  # its servers may change at this moment
            group = await look_at_group(self.bus, stream)
            return await compare_copies(self.bus, stream, group) if group.whole else {}
        return {}

    async def same(self) -> None:
        """Every server's copy of the stream of events has everything."""
        with contextlib.suppress(StoreUnavailable):
            group = await look_at_group(self.bus, PARCELS)
            copies = await read_copies(self.bus, PARCELS, group)
            assert [len(each) for each in copies.values()] == [CARRIED] * len(self.servers)
            return
        raise AssertionError

    async def readable(self) -> bool:
        """Whether the leader can read the last release; right after it took over, it may not answer yet."""
        return await once_it_works(lambda: self.store.readable(RELEASED), StoreUnavailable)

    async def missing(self) -> dict[str, int]:
        """How many releases each server cannot read; right after the leader changed, one may not answer yet."""

        async def read() -> dict[str, int]:
            copies = await read_copies(self.bus, STREAM, await look_at_group(self.bus, STREAM))
            return {name: RELEASED - len(numbers) for name, numbers in sorted(copies.items())}

        return await once_it_works(read, StoreUnavailable)


def _alter(store: Path, stream: str, share: float) -> None:
    folder = next(store.rglob(f"{stream}/msgs"))
    assert (folder / "index.db").exists()
    block = max(folder.glob("*.blk"))
    data = bytearray(block.read_bytes())
    data[int(share * len(data)) - 100] ^= 0xFF
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
    assert not await place.readable()  # what members would be told from now on
    async with place.world.access() as access:
        await eventually(lambda: access.copies.healed)
    assert f"server `{damaged}` cannot read 1 messages of {STREAM}" in caplog.text
    await place.whole()
    assert await place.missing() == dict.fromkeys(sorted(place.servers), 0)
    await place.lead(damaged)
    assert await place.readable()


@pytest.mark.cluster
async def test_a_server_that_copied_from_a_damaged_leader_is_made_anew_too_so_that_no_event_is_lost(
    place, monkeypatch
):
    monkeypatch.setattr(stream_copies, "WINDOW", 7)  # a stream of several windows
    async with place.world.access():
        await place.carry(CARRIED)
    damaged = min(place.servers.keys() - {await place.whole(PARCELS)})
    emptied = max(place.servers.keys() - {damaged})
    await place.alter(damaged, PARCELS, 0.5)
    await place.whole(PARCELS)
    await place.lead(damaged, PARCELS)
    await place.empty(emptied)
    await place.whole(PARCELS)  # all say that they have everything

    async def lacking() -> None:
        found = await place.compare(PARCELS)
        assert found.keys() == {damaged, emptied}
        assert found[damaged].count == 1
        assert found[emptied].first == found[damaged].first  # there it has stopped

    await once_it_works(lacking, AssertionError)
    async with place.world.access():
        await once_it_works(place.same, AssertionError)

"""A store that has lost releases, gone back or forked is refused, named and never called complete; leases end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from authfabric.fabric import Fabric
from authz import Reason
from bus import NatsServer
from pep import UNVERIFIED, Enforcer
from tests.authfabric.pushing import authfabric, released, write
from tests.waiting import once_it_works

LEASE = 3.0


class Place:
    """A server whose store can be exchanged, and two replicas on it."""

    def __init__(self, folder: Path, server: NatsServer, running: Fabric) -> None:
        self.folder, self.server, self.running = folder, server, running

    async def push(self, subject: str, *more: str) -> tuple[int, dict]:
        policies = write(self.folder / "policies", subject)
        return await authfabric("policy", "push", str(policies), "--url", self.server.url, *more)

    @contextlib.asynccontextmanager
    async def stopped(self) -> AsyncIterator[Path]:
        """The folder of the store, while no server has it open."""
        await self.server.stop()
        yield self.folder / "store"
        await self.server.start()

    async def problem(self, subject: str) -> str:
        """Why nothing is decided, as soon as the leases have ended."""

        async def stale() -> str:
            decision = await pep.check(subject, "/x", "read")
            assert decision.reason is Reason.STALE
            return decision.detail

        async with Enforcer.connect(self.server.url, trust=UNVERIFIED) as pep:
            return await once_it_works(stale, AssertionError)


@pytest.fixture
async def place(tmp_path, monkeypatch) -> AsyncIterator[Place]:
    async with NatsServer(jetstream=tmp_path / "store") as server:
        monkeypatch.setenv("AUTHFABRIC_NATS_URL", server.url)
        async with released(tmp_path / "policies", replicas=0) as running:
            await asyncio.gather(
                *(running.add(f"pdp-{n}", extra=["--lease", str(LEASE)]) for n in range(1, 3))
            )
            yield Place(tmp_path, server, running)


async def test_a_push_into_a_store_that_was_emptied_is_not_complete_and_the_old_policies_end(place):
    assert (await place.push("bob", "--wait"))[0] == 0
    async with place.stopped() as store:
        shutil.rmtree(store)
    code, done = await place.push("eve", "--wait", "--timeout", "10")
    assert done["epoch"] == 1
    assert (code, done["rollout"]["complete"], done["rollout"]["applied"]) == (1, False, [])
    assert "gone back to release 1" in await place.problem("bob")


async def test_another_release_of_the_same_number_after_a_restore_is_never_called_complete(place):
    async with place.stopped() as store:
        shutil.copytree(store, place.folder / "copy")
    assert (await place.push("bob", "--wait"))[0] == 0
    async with place.stopped() as store:
        shutil.rmtree(store)
        shutil.copytree(place.folder / "copy", store)
    code, done = await place.push("eve", "--wait", "--timeout", "10")
    assert (code, done["epoch"], done["rollout"]["applied"]) == (1, 2, [])
    assert "in place of release 2" in await place.problem("bob")

"""A store that has lost releases, gone back or forked is refused, named and never called complete; leases end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from authfabric.processes.launcher import Fabric
from authz import Reason
from bus import Connection, NatsServer, NoResponders
from bus.feeds.held_releases_service import ReleaseRequest
from bus.wire import pack
from bus.wire.subjects import held
from pep import UNVERIFIED, Enforcer
from tests.authfabric.pushing import authfabric, released, write
from tests.waiting import PATIENCE, once_it_works

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

    async def go_back_after(self, subject: str) -> None:
        """Push what allows the subject as release 2, then let the store be as it was before."""
        async with self.stopped() as store:
            shutil.copytree(store, self.folder / "copy")
        assert (await self.push(subject, "--wait"))[0] == 0
        async with self.stopped() as store:
            shutil.rmtree(store)
            shutil.copytree(self.folder / "copy", store)
        async with Connection(self.server.url) as bus:  # a push before they are back is held against nobody
            await once_it_works(lambda: bus.ask(held("default"), pack(ReleaseRequest()), 5.0), NoResponders)

    async def restore(self, *more: str) -> tuple[int, dict]:
        return await authfabric("policy", "restore", "--url", self.server.url, *more)

    async def doctor(self) -> list[dict]:
        """What the doctor finds about the store and the members."""
        _, done = await authfabric("doctor", "--url", self.server.url)
        found = {each["about"]: each for each in done["findings"]}
        return [found["policy store"], found["members"]]

    async def allows(self) -> set[str]:
        """Whom the replicas allow."""

        async def allowed(who: str) -> bool:
            decision = await pep.check(who, "/x", "read")
            assert decision.decided  # a lease of 3 s may end on a machine that is busy
            return decision.allowed

        async with Enforcer.connect(self.server.url, trust=UNVERIFIED, deadline=5.0) as pep:
            people = ("ann", "bob", "eve")
            return {who for who in people if await once_it_works(partial(allowed, who), AssertionError)}

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
    code, done = await place.push("eve", "--override", "--wait", "--timeout", "10")
    assert done["epoch"] == 1
    assert (code, done["rollout"]["complete"], done["rollout"]["applied"]) == (1, False, [])
    assert "gone back to release 1" in await place.problem("bob")


async def test_another_release_of_the_same_number_after_a_restore_is_never_called_complete(place):
    await place.go_back_after("bob")
    code, done = await place.push("eve", "--override", "--wait", "--timeout", "10")
    assert (code, done["epoch"], done["rollout"]["applied"]) == (1, 2, [])
    assert "in place of release 2" in await place.problem("bob")
    code, _ = await place.restore()
    assert code == 3  # somebody must say whose policies count
    code, done = await place.restore("--join", "held", "--wait")
    assert (code, done["epoch"], done["rollout"]["complete"]) == (0, 3, True)
    assert await place.allows() == {"bob"}
    assert (await place.push("ann", "--wait"))[0] == 0


async def test_nothing_is_pushed_into_a_store_that_has_gone_back_until_it_has_what_replicas_hold(place):
    await place.go_back_after("bob")
    assert (await place.push("eve"))[0] == 3

    async def named() -> None:
        store, members = await place.doctor()
        assert not store["well"]
        assert "goes only as far as release 1" in store["found"]
        assert "held by pdp-1, pdp-2" in store["found"]
        assert not members["well"]
        assert "pdp-1, pdp-2" in members["found"]

    await once_it_works(named, AssertionError)  # the doctor waits a second or two for whoever answers
    code, done = await place.restore("--dry-run")
    assert (code, done["put_back"], done["epoch"], done["done"]) == (0, 2, 1, False)
    code, done = await place.restore("--wait")
    assert (code, done["put_back"], done["epoch"], done["rollout"]["complete"]) == (0, 2, 2, True)
    assert await place.allows() == {"bob"}
    code, done = await place.restore()
    assert (code, done["put_back"], done["joined"], done["epoch"]) == (0, None, [], 2)
    code, done = await place.push("eve", "--wait")
    assert (code, done["epoch"], done["rollout"]["complete"]) == (0, 3, True)
    assert await place.allows() == {"eve"}

    async def well() -> None:
        assert [each["well"] for each in await place.doctor()] == [True, True]

    await once_it_works(well, AssertionError)


async def refuses_to_start(place: Place, problem: str) -> None:
    """A replica that has never run says what is wrong with the store, and does not serve."""
    words = ("--url", place.server.url, "--name", "pdp-3", "--cache", str(place.folder / "new"), "--json")
    starting = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "authfabric", "pdp", "serve", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        said = b""
        while problem.encode() not in said:
            said = await asyncio.wait_for(starting.stderr.readline(), PATIENCE)
            assert said
    finally:
        starting.kill()
        ready, _ = await starting.communicate()
    assert ready == b""


async def test_a_replica_without_a_past_does_not_start_by_less_than_others_hold(place):
    await place.go_back_after("bob")
    await refuses_to_start(place, "behind release 2")


async def test_a_flipped_bit_in_the_only_copy_brings_no_revoked_right_back(place):
    assert (await place.push("bob", "--wait"))[0] == 0
    assert (await place.push("ann", "--wait"))[0] == 0
    async with place.stopped() as store:
        (messages,) = store.rglob("KV_authfabric-releases/msgs")
        (block,) = messages.glob("*.blk")
        data = bytearray(block.read_bytes())
        data[-40] ^= 1
        block.write_bytes(data)
        (messages / "index.db").unlink()  # so the server begins anew with what it can read
    await refuses_to_start(place, "behind release 3")
    code, done = await authfabric("doctor", "--url", place.server.url)
    (found,) = [each for each in done["findings"] if each["about"] == "policy store"]
    assert (code, found["well"]) == (1, False)
    assert "policy restore" in found["do"]
    code, done = await place.restore("--wait")
    assert (code, done["epoch"]) == (0, 3)
    assert await place.allows() == {"ann"}

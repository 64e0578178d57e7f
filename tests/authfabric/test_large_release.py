"""A release that takes long to compile is not felt: it is compiled before it counts, and those who wait are told.

Compiling is held up by the lock that lets one process of a machine compile at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

from authfabric.files.decision_rights import write_authority
from authfabric.files.keys import own_identity
from authfabric.processes.launcher import Fabric, ReplicaProcess
from authz import Identity, Reason
from authz.release import PREPARATION, Preparation
from bus import Connection
from bus.feeds.release_feed import Feed
from bus.stores.release_store import ReleaseStore
from bus.wire.messages import Prepared, unpack_prepared
from bus.wire.subjects import prepare
from pdp.bundle.bundle_store import read_folder
from pdp.releases.compile_service import LARGE_BYTES
from pep import Enforcer
from tests.authfabric.pushing import authfabric, released, write
from tests.waiting import PATIENCE, eventually

LEASE = 2.0


def large(folder: Path, subject: str, others: int = 1500) -> Path:
    """Policies by which one of our subjects is allowed, and very many others of whom nobody asks."""
    folder.mkdir(exist_ok=True)
    policies = [
        {"uid": f"only-{name}", "effect": "allow", "rules": {}, "targets": {"subject_id": name}}
        for name in (subject, *(f"somebody-{n:06}" for n in range(others)))
    ]
    (folder / "policies.json").write_text(json.dumps(policies))
    assert (folder / "policies.json").stat().st_size > LARGE_BYTES
    return folder


@contextlib.contextmanager
def held(cache: Path) -> Iterator[None]:
    """Keeps everyone whose policies are kept there from compiling."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    with (cache.parent / "packing.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def follow(running: Fabric, cache: Path, *names: str) -> None:
    running.policies = None
    extra = ["--cache", str(cache), "--lease", str(LEASE)]
    await asyncio.gather(*(running.add(name, extra=extra) for name in names))


async def test_the_release_before_answers_until_a_large_one_is_in_force_and_never_after(tmp_path):
    cache = tmp_path / "releases" / "default"
    async with released(tmp_path / "policies", replicas=0) as running:
        await follow(running, cache, "pdp-1", "pdp-2")
        async with Enforcer.connect(running.url, deadline=10.0, trust=[running.root.public]) as pep:
            push = ("policy", "push", str(large(tmp_path / "large", "bob")), "--wait", "--url", running.url)
            with held(cache):
                pushing = asyncio.create_task(authfabric(*push))
                await eventually(lambda: len(packing(running)) == 2)
                since = monotonic()
                while monotonic() < since + 2 * LEASE:  # longer than anybody's lease
                    decision = await pep.check("ann", "/x", "read")
                    assert (decision.allowed, decision.epoch, decision.reason) == (True, 1, Reason.POLICY)
                assert not pushing.done()
            while not pushing.done():
                decision = await pep.check("ann", "/x", "read")
                assert decision.allowed is (decision.epoch == 1), decision
                assert decision.decided, decision
            code, done = await pushing
            assert (code, done["epoch"]) == (0, 2)
            assert done["rollout"]["applied"] == ["pdp-1", "pdp-2"]
            for _ in range(200):
                decision = await pep.check("ann", "/x", "read")
                assert (decision.allowed, decision.epoch) == (False, 2)
            assert (await pep.check("bob", "/x", "read")).allowed
            assert packing(running) == []
            assert len(list(cache.parent.glob("*.packed"))) == 1, "the two have compiled it once"


def packing(running: Fabric) -> list[int]:
    """The processes that compile for the replicas of a fabric, by id."""
    children = [
        int(child)
        for replica in running.replicas.values()
        for child in Path(f"/proc/{replica.pid}/task/{replica.pid}/children").read_text().split()
    ]
    return [each for each in children if "pdp.releases.packing_process" in command(each)]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


async def test_a_replica_that_starts_with_a_large_release_says_so_and_is_waited_for(tmp_path):
    cache = tmp_path / "releases" / "default"
    async with released(tmp_path / "policies", replicas=0) as running:
        push = ("policy", "push", str(large(tmp_path / "large", "bob")), "--url", running.url)
        assert (await authfabric(*push))[0] == 0
        words = ["pdp", "serve", "--url", running.url, "--cache", str(cache), "--name", "pdp-1", "--json"]
        words += write_authority(running.folder, "pdp-1", running.root)
        with held(cache):
            command = [sys.executable, "-m", "authfabric", *words]
            starting = asyncio.create_task(ReplicaProcess.run("pdp-1", command, seconds=PATIENCE))
            log = await logged()
            await eventually(lambda: "compiling" in log())
            assert "s so far" in log()
            assert not starting.done()
        replica = await starting
        assert replica.ready.serves == ["domain:default"]
        assert await replica.stop() == 0
        assert len(list(cache.parent.glob("*.packed"))) == 1
        # What was compiled is there at the next start: nobody has to compile it, so nobody waits.
        with held(cache):
            replica = await ReplicaProcess.run("pdp-1", command, seconds=PATIENCE)
        assert await replica.stop() == 0


async def logged() -> Callable[[], str]:
    """What the process that is being started has said so far."""
    me = os.getpid()

    def children() -> list[int]:
        return [int(each) for each in Path(f"/proc/{me}/task/{me}/children").read_text().split()]

    await eventually(lambda: any("pdp\0serve" in command(each) for each in children()))
    (pid,) = [each for each in children() if "pdp\0serve" in command(each)]
    return lambda: Path(f"/proc/{pid}/fd/2").read_text()


async def test_only_whoever_may_release_has_bundles_prepared(tmp_path):
    """A stranger's word makes nobody compile; the releaser's does, and is told how far they are."""
    cache = tmp_path / "releases" / "default"
    async with released(tmp_path / "policies", replicas=0) as running, Connection(running.url) as bus:
        await follow(running, cache, "pdp-1")
        async with Feed(bus, "default", [own_identity().public]) as feed:
            newest = (await feed.look()).newest
        assert newest is not None
        assert newest.released is not None
        bundle = read_folder(write(tmp_path / "policies", "eve"))
        chunks = await ReleaseStore(bus).put("default", bundle.pack())
        preparation = Preparation("default", bundle.hash, chunks, newest.released.hash)
        answers: list[Prepared] = []
        reply = bus.expect(lambda data, nobody: answers.append(unpack_prepared(data)))
        bus.send(prepare("default"), PREPARATION.sign(preparation, Identity.generate()), reply)
        await eventually(lambda: "is not prepared" in running.replicas["pdp-1"].log)
        assert answers == []
        old = Preparation("default", bundle.hash, chunks, before="00" * 32)
        for each in (old, preparation):
            bus.send(prepare("default"), PREPARATION.sign(each, own_identity()), reply)
        await eventually(lambda: Prepared("pdp-1", True) in answers)
        assert answers == [Prepared("pdp-1", False), Prepared("pdp-1", True)], "the one of before is not"

"""A replica whose follower of releases stumbles: it is not ready and says so, and nobody goes by what is stale."""

from __future__ import annotations

import asyncio
import sys
import urllib.error
import urllib.request
from pathlib import Path

from authfabric.files import write_authority
from authfabric.files.keys import own_identity
from authfabric.processes.launcher import Fabric, ReplicaProcess
from authz import Reason
from pep import Enforcer
from tests.authfabric.pushing import authfabric, released, write
from tests.waiting import eventually, once_it_works

LEASE = 2.0
STUMBLES = """
import os
from bus.feeds.release_feed import Feed

look = Feed.look

async def stumble(self):
    if os.path.exists({!r}):
        raise RuntimeError("the handler is closed")
    return await look(self)

Feed.look = stumble
"""


async def stumbling(running: Fabric, folder: Path, mark: Path, lease: float = LEASE) -> ReplicaProcess:
    """A replica that cannot look at the store while the file is there, as when uvloop's socket has closed under it."""
    (folder / "sitecustomize.py").write_text(STUMBLES.format(str(mark)))
    words = ["pdp", "serve", "--url", running.url, "--name", "pdp-1", "--lease", str(lease), "--json"]
    words += write_authority(running.folder, "pdp-1", running.root)
    command = [sys.executable, "-m", "authfabric", *words]
    running.replicas["pdp-1"] = await ReplicaProcess.run("pdp-1", command, {"PYTHONPATH": str(folder)})
    return running.replicas["pdp-1"]


def probe(replica: ReplicaProcess, page: str) -> str:
    try:
        with urllib.request.urlopen(f"{replica.ready.health}/{page}", timeout=20) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"


async def test_a_follower_that_fails_makes_its_replica_unready_and_stale_and_is_started_again(tmp_path):
    mark = tmp_path / "stumble"
    async with released(tmp_path / "policies", replicas=0) as running:
        replica = await stumbling(running, tmp_path, mark)
        async with Enforcer.connect(running.url, trust=[running.root.public], recycling=None) as pep:

            async def says(expected: Reason) -> None:
                assert (await pep.check("ann", "/x", "read")).reason is expected

            await once_it_works(lambda: says(Reason.POLICY), AssertionError)
            mark.touch()
            await eventually(lambda: "`ReleaseFollower._follow` failed and is started again" in replica.log)
            said = await asyncio.to_thread(probe, replica, "readyz")
            assert said.startswith("503 not ok\n")
            assert "ReleaseFollower._follow has failed" in said
            await once_it_works(lambda: says(Reason.STALE), AssertionError)
            mark.unlink()
            push = (
                "policy",
                "push",
                str(write(tmp_path / "policies", "bob")),
                "--wait",
                "--url",
                running.url,
            )
            code, done = await authfabric(*push)
            assert (code, done["rollout"]["applied"]) == (0, ["pdp-1"])
            assert not (await pep.check("ann", "/x", "read")).allowed
            metrics = await asyncio.to_thread(probe, replica, "metrics")
            counted = 'authfabric_background_failures_total{work="ReleaseFollower._follow"} '
            (line,) = [each for each in metrics.splitlines() if each.startswith(counted)]
            assert float(line.removeprefix(counted)) >= 1


async def test_a_pep_that_has_verified_a_release_takes_no_answer_by_the_one_before(tmp_path):
    """The replica goes on by that for good: it has no lease, and cannot look at the store."""
    mark = tmp_path / "stumble"
    async with released(tmp_path / "policies", replicas=0) as running:
        replica = await stumbling(running, tmp_path, mark, lease=0)
        trust = [running.root.public, own_identity().public]
        async with (
            Enforcer.connect(running.url, trust=trust) as knowing,
            Enforcer.connect(running.url, trust=trust, recycling=None) as asking,
        ):

            async def answers(epoch: int) -> None:
                decision = await knowing.check("ann", "/x", "read")
                assert (decision.epoch, decision.allowed) == (epoch, epoch == 1)

            await once_it_works(lambda: answers(1), AssertionError)
            mark.touch()
            await eventually(lambda: "`ReleaseFollower._follow` failed and is started again" in replica.log)
            bob = str(write(tmp_path / "policies", "bob"))
            assert (await authfabric("policy", "push", bob, "--url", running.url))[0] == 0
            assert knowing.secondary is not None
            await eventually(lambda: knowing.secondary.feed.epoch == 2)
            assert (await asking.check("ann", "/x", "read")).epoch == 1, "the replica is not behind"
            decision = await knowing.check("ann", "/x", "read", deadline=0.5)
            assert (decision.allowed, decision.reason) == (False, Reason.TIMEOUT)
            assert "by epoch 2 or a newer one" in decision.detail
            mark.unlink()
            await once_it_works(lambda: answers(2), AssertionError)

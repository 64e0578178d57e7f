"""A replica whose follower of releases stumbles: it is not ready and says so, decides nothing stale, and goes on."""

from __future__ import annotations

import asyncio
import sys
import urllib.error
import urllib.request
from pathlib import Path

from authfabric.files import write_authority
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


async def stumbling(running: Fabric, folder: Path, mark: Path) -> ReplicaProcess:
    """A replica that cannot look at the store while the file is there, as when uvloop's socket has closed under it."""
    (folder / "sitecustomize.py").write_text(STUMBLES.format(str(mark)))
    words = ["pdp", "serve", "--url", running.url, "--name", "pdp-1", "--lease", str(LEASE), "--json"]
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

"""Real processes die, freeze, leave and come under load, and no request is lost."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from authfabric.processes.launcher import Fabric, ReplicaProcess, fabric
from authz import Identity
from bus import NatsServer, cluster
from bus.runtime import ProcessFailed
from pep import UNVERIFIED, Enforcer
from tests.authfabric.load import Load, load
from tests.waiting import eventually

DEADLINE = 10.0
"""Long enough for this machine, whatever else it does: what counts is that no answer is lost."""


@contextlib.asynccontextmanager
async def busy(url: str, count: int = 2) -> AsyncIterator[tuple[Load, list[Enforcer]]]:
    """Some PEPs with callers who ask all the time."""
    async with contextlib.AsyncExitStack() as stack:
        peps = [
            await stack.enter_async_context(
                Enforcer.connect(url, deadline=DEADLINE, recycling=None, trust=UNVERIFIED)
            )
            for _ in range(count)
        ]
        yield await stack.enter_async_context(load(*peps)), peps


async def test_replicas_killed_frozen_replaced_and_drained_under_load_lose_nothing():
    async with fabric(3) as running:
        async with busy(running.url) as (asked, peps):
            await running.replicas["pdp-1"].kill()
            await asked.more()
            running.replicas["pdp-2"].freeze()
            await asked.more()
            await running.add("pdp-4")
            await asked.more()
            assert await running.replicas["pdp-3"].stop() == 0
            await asked.more()
            running.replicas["pdp-2"].thaw()
            await asked.more()
        assert not asked.failures
        assert sum(pep.asker.asked_again for pep in peps) > 0  # the frozen one was noticed


async def test_the_only_server_killed_and_started_again_under_load_loses_nothing(own_server: NatsServer):
    async with replicas(own_server, own_server) as _, busy(own_server.url, 1) as (asked, peps):
        await own_server.stop(signal.SIGKILL)
        await eventually(lambda: not peps[0].asker.connection.ready)
        await own_server.start()
        await asked.more()
    assert not asked.failures


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_a_cluster_node_that_dies_or_freezes_under_load_loses_nothing(fault: str):
    """The PEP and two of three replicas are connected to it."""
    async with (
        cluster(3) as (first, second, third),
        replicas(first, first, second),
        busy(first.url, 1) as (asked, peps),
    ):
        (connection,) = [pep.asker.connection for pep in peps]
        assert first.url.endswith(connection.server)
        if fault == "kill":
            await first.stop(signal.SIGKILL)
        else:
            first.freeze()
        await eventually(lambda: connection.reconnects)
        await asked.more()
        assert connection.ready
        assert not first.url.endswith(connection.server)
        assert third.running
    assert not asked.failures


@contextlib.asynccontextmanager
async def replicas(*servers: NatsServer) -> AsyncIterator[Fabric]:
    """One replica process at each of these servers."""
    running = Fabric(servers[0].url, Identity.generate(), Path())
    try:
        starting = [ReplicaProcess.start(f"pdp-{n}", server.url) for n, server in enumerate(servers)]
        for replica in await asyncio.gather(*starting):
            running.replicas[replica.name] = replica
        yield running
    finally:
        await running.stop()


async def test_if_one_replica_does_not_start_none_is_left_running(tmp_path, monkeypatch):
    started: list[ReplicaProcess] = []
    create = ReplicaProcess.__init__

    def remember(self: ReplicaProcess, *arguments: object) -> None:
        create(self, *arguments)
        started.append(self)

    monkeypatch.setattr(ReplicaProcess, "__init__", remember)
    (tmp_path / "broken.yaml").write_text("- {")
    with pytest.raises(ProcessFailed, match="did not start"):
        async with fabric(3, policies=tmp_path):
            pass
    assert len(started) == 3
    assert not any(replica.running for replica in started)

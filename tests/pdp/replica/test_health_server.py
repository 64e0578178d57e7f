"""Health turns false when the bus or the event loop is wedged, not only when the process is gone."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.error
import urllib.request

import pytest

from authz import Request
from bus import Connection, Scope
from bus.runtime.health_server import HealthPortTaken
from bus.wire.envelope import pack
from bus.wire.messages import Questions
from bus.wire.subjects import Mode, question
from pdp.replica import health_server
from pdp.replica.health_server import is_live, is_ready, serve_health
from pdp.replica.service import Replica
from tests.deciders import Readers
from tests.waiting import eventually

DOMAIN = Scope.parse("domain:default")


def fetch(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60.0) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def get(port: int, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(fetch, port, path)


@pytest.fixture
async def running(own_server):
    async with Connection(own_server.url) as bus, Replica(bus, Readers(), [DOMAIN]) as replica:
        with serve_health(replica, 0) as port:
            yield own_server, replica, port


async def test_a_replica_is_well_from_the_start(running):
    _, _, port = running
    assert await get(port, "/healthz") == (200, "ok\n")
    assert await get(port, "/readyz") == (200, "ok\n")


async def test_a_frozen_server_makes_it_unwell_and_a_thawed_one_well_again(running, monkeypatch):
    monkeypatch.setattr(health_server, "STALE_SECONDS", 1.2)
    server, replica, port = running
    server.freeze()
    await eventually(lambda: not is_live(replica, time.monotonic()))
    assert await get(port, "/healthz") == (503, "not ok\n")
    assert await get(port, "/readyz") == (503, "not ok\n")
    server.thaw()
    await eventually(lambda: is_ready(replica, time.monotonic()))
    assert await get(port, "/healthz") == (200, "ok\n")


async def test_a_dead_server_makes_it_unready_at_once(running):
    server, replica, port = running
    await server.stop(signal.SIGKILL)
    await eventually(lambda: not replica.connection.ready)
    assert await get(port, "/readyz") == (503, "not ok\n")


async def test_a_blocked_event_loop_makes_it_unwell(running, monkeypatch):
    """The thread that serves health must answer while the loop does not run."""
    monkeypatch.setattr(health_server, "STALE_SECONDS", 0.2)
    _, _, port = running
    blocked_until = time.monotonic() + 10.0
    while fetch(port, "/healthz")[0] == 200:  # on the event loop's own thread: nothing else runs
        assert time.monotonic() < blocked_until
    assert fetch(port, "/healthz") == (503, "not ok\n")


async def test_a_draining_replica_is_live_but_not_ready(running):
    _, replica, port = running
    await replica.drain()
    assert await get(port, "/healthz") == (200, "ok\n")
    assert await get(port, "/readyz") == (503, "not ok\n")


async def test_metrics_are_the_replicas_own_counters(running):
    server, _, port = running
    async with Connection(server.url) as bus:
        questions = pack(Questions([Request.of("alice", "/x", "read")] * 3))
        await bus.ask(question(Mode.ANY, DOMAIN), questions, 5.0)
        await bus.ask(question(Mode.ANY, DOMAIN), b"junk", 5.0)
    status, text = await get(port, "/metrics?name[]=x")
    assert status == 200
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values["authfabric_pdp_decisions_total"] == "3.0"
    assert values["authfabric_pdp_unreadable_total"] == "1.0"
    assert values["authfabric_pdp_queue"] == "0.0"
    assert set(values) >= {
        "authfabric_pdp_shed_total",
        "authfabric_pdp_expired_total",
        "authfabric_bus_dropped_total",
        "authfabric_bus_reconnects_total",
    }


async def test_other_paths_are_told_which_there_are(running):
    _, _, port = running
    assert await get(port, "/") == (404, "ask for /healthz, /readyz or /metrics\n")


async def test_a_port_that_is_taken_is_told(running):
    _, replica, port = running
    taken = f"health cannot be served on `127.0.0.1:{port}`: .*in use"
    with pytest.raises(HealthPortTaken, match=taken), serve_health(replica, port):
        pass

"""The Enforcer for threads: any number of them, and none is left waiting."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from authz import Decision, Identity, InvalidRequest, Reason, Request
from bus import NatsServer, NotConnected
from bus.identity.credentials import Credentials, connection_key
from bus.server.nats_server import free_ports
from pep import UNVERIFIED, AccessDenied, Strategy, SyncEnforcer
from tests.deciders import Gated, Readers
from tests.pep.fabric import serving

YES = Decision(True, policies=("readers",))


@pytest.fixture
async def url(server) -> Iterator[str]:
    async with serving(server.url, Readers()):
        yield server.url


async def test_it_asks_like_the_enforcer(url):
    def work() -> None:
        with SyncEnforcer.connect(url, deadline=10.0, trust=UNVERIFIED) as pep:
            assert pep.check("alice", "/x", "read") == YES
            assert pep.check(Request.of("alice", "/x", "write"), deadline=5.0).reason is Reason.NO_POLICY
            assert pep.require("alice", "/x", "read", strategy=Strategy.FLOOD) == YES
            with pytest.raises(AccessDenied):
                pep.require("alice", "/x", "write")
            with pytest.raises(InvalidRequest, match=r"`object\.id`"):
                pep.check("alice", "..", "read")
            assert pep.check_many([("alice", f"/{n}", "read") for n in range(300)]) == [YES] * 300

    await asyncio.to_thread(work)


async def test_many_threads_share_one(url):
    def work() -> list[bool]:
        with (
            SyncEnforcer.connect(url, deadline=30.0, trust=UNVERIFIED) as pep,
            ThreadPoolExecutor(16) as threads,
        ):
            return list(threads.map(lambda n: pep.check("alice", f"/{n}", "read").allowed, range(800)))

    assert await asyncio.to_thread(work) == [True] * 800


async def test_closing_leaves_no_thread_waiting(server):
    decider, loop = Gated(), asyncio.get_running_loop()

    def work() -> None:
        with ThreadPoolExecutor(1) as threads, contextlib.ExitStack() as stack:
            pep = stack.enter_context(SyncEnforcer.connect(server.url, deadline=3600.0, trust=UNVERIFIED))
            waiting = threads.submit(pep.check, "alice", "/x", "read")
            asyncio.run_coroutine_threadsafe(decider.entered.wait(), loop).result()
            stack.close()
            assert waiting.result(30.0).reason is Reason.NOT_CONNECTED
            with pytest.raises(RuntimeError, match="the SyncEnforcer is closed"):
                pep.check("alice", "/x", "read")

    async with serving(server.url, decider):
        await asyncio.to_thread(work)
        decider.gate.set()


async def test_inside_its_own_event_loop_it_refuses_to_wait_for_itself(url):
    def work() -> None:
        with SyncEnforcer.connect(url, deadline=10.0, trust=UNVERIFIED) as pep:

            async def inside() -> None:
                pep.check("alice", "/x", "read")

            with pytest.raises(RuntimeError, match="use Enforcer inside the event loop"):
                pep._loop.run(inside())

    await asyncio.to_thread(work)


def test_without_a_server_it_says_so_and_leaves_no_thread():
    (port,) = free_ports(1)
    before = threading.active_count()
    with (
        pytest.raises(NotConnected),
        SyncEnforcer.connect(f"nats://127.0.0.1:{port}", connect_seconds=0.2, trust=UNVERIFIED),
    ):
        pass
    assert threading.active_count() == before


async def test_it_has_an_identity_too():
    identity = Identity.generate()
    extra = f"authorization {{ users: [ {{ nkey: {connection_key(identity).public} }} ] }}\n"

    def work(url: str) -> Decision:
        with SyncEnforcer.connect(url, credentials=Credentials(identity), trust=UNVERIFIED) as pep:
            return pep.check("alice", "/x", "read")

    async with NatsServer(extra=extra) as server:
        assert (await asyncio.to_thread(work, server.url)).reason is Reason.NO_PDP


async def test_in_a_child_of_its_process_it_says_so_instead_of_waiting_for_ever(url):
    """A service that forks its workers must connect in each of them: threads do not survive a fork."""
    program = (
        "import os, sys\n"
        "from pep import UNVERIFIED, SyncEnforcer\n"
        "with SyncEnforcer.connect(sys.argv[1], deadline=30.0, trust=UNVERIFIED) as pep:\n"
        "    assert pep.check('alice', '/x', 'read').allowed\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        try:\n"
        "            pep.check('alice', '/x', 'read')\n"
        "        except RuntimeError as error:\n"
        "            os._exit(7 if 'belongs to the parent' in str(error) else 1)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, url)
    assert await process.wait() == 0

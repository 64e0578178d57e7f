"""Clients whose server is away come back one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import signal

from bus import Connection
from bus.nats.client import FIRST_PAUSE, MOST_PAUSE, pause_before
from tests.waiting import PATIENCE, eventually

CLIENTS = 24


def test_each_server_is_tried_at_once_and_then_again_after_pauses_that_grow_and_differ():
    assert {pause_before(attempt, 3) for attempt in range(3)} == {0.0}
    second = [pause_before(3, 3) for _ in range(100)]
    assert len(set(second)) > 90
    assert max(second) <= FIRST_PAUSE
    assert FIRST_PAUSE < max(pause_before(6, 3) for _ in range(100)) <= 2 * FIRST_PAUSE
    assert 2 * FIRST_PAUSE < max(pause_before(10**6, 3) for _ in range(100)) <= MOST_PAUSE


async def test_while_their_server_is_away_clients_do_not_try_in_step_and_all_come_back(own_server):
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Connection(own_server.url)) for _ in range(CLIENTS)]

        def attempts() -> list[int]:
            return [client._client._attempts for client in clients]

        await own_server.stop(signal.SIGKILL)
        await eventually(lambda: max(attempts()) >= 6)
        assert max(attempts()) - min(attempts()) > 1
        await own_server.start()
        assert all(await asyncio.gather(*(client.wait_ready(PATIENCE) for client in clients)))

"""Long work on the event loop lets others have their turns."""

from __future__ import annotations

import asyncio

import pytest

from bus.runtime import Turns, event_loop


@pytest.mark.parametrize(("seconds", "others"), [(0.0, 3), (1000.0, 0)])
async def test_others_go_first_whenever_a_turn_is_over(monkeypatch, seconds, others):
    monkeypatch.setattr(event_loop, "TURN_SECONDS", seconds)
    turns, ran = Turns(), []

    async def other() -> None:
        while True:
            ran.append(None)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for _ in range(3):
        await turns.end()
    task.cancel()
    assert len(ran) == others

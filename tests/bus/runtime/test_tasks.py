from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest

from bus.runtime.tasks import background_work, end_task, in_background, result_within
from tests.waiting import PATIENCE, eventually


async def test_background_work_ends_with_its_stack():
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with AsyncExitStack() as stack:
        in_background(stack, work)
        await asyncio.sleep(0)
        assert not ended.is_set()
    await eventually(ended.is_set)


async def test_an_error_that_ends_background_work_is_logged(caplog):
    async def work() -> None:
        raise RuntimeError("out of luck")

    async with AsyncExitStack() as stack:
        in_background(stack, work)
        await eventually(lambda: "out of luck" in caplog.text)


async def test_work_that_is_merely_cancelled_is_not_reported(caplog):
    async with AsyncExitStack() as stack:
        in_background(stack, lambda: asyncio.sleep(3600))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert caplog.text == ""


async def test_a_task_that_takes_a_cancellation_for_its_own_is_cancelled_again():
    async def stubborn() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end_task(task)
    assert task.cancelled()


async def test_work_that_fails_is_started_again_and_counts_as_down_meanwhile():
    failing, again = [True], asyncio.Event()

    async def work() -> None:
        if failing:
            raise RuntimeError("the handler is closed")
        again.set()
        await asyncio.Event().wait()

    async with AsyncExitStack() as stack:
        running = in_background(stack, work)
        await eventually(lambda: running.failures > 1)
        assert running.down
        assert running in background_work()
        failing.clear()
        await asyncio.wait_for(again.wait(), PATIENCE)
        await eventually(lambda: not running.down)
    assert running not in background_work()


async def test_work_is_started_again_when_something_that_it_awaits_is_cancelled():
    waiting: list[asyncio.Future[None]] = []

    async def work() -> None:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]

    async with AsyncExitStack() as stack:
        running = in_background(stack, work)
        await eventually(lambda: len(waiting) == 1)
        waiting[0].cancel()
        await eventually(lambda: len(waiting) == 2)
        assert running.failures == 1


async def test_a_cancellation_that_comes_with_the_result_is_not_lost():
    async def answer() -> int:
        waiting.cancel()
        return 1

    waiting = asyncio.create_task(result_within(answer(), PATIENCE))
    await asyncio.wait([waiting], timeout=PATIENCE)
    assert waiting.cancelled()


async def test_work_that_takes_too_long_is_given_up_and_ended():
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await result_within(work(), 0.01)
    await eventually(ended.is_set)


async def test_the_result_of_work_in_time_is_returned_and_its_error_raised():
    async def answer(text: str) -> int:
        return int(text)

    assert await result_within(answer("1"), PATIENCE) == 1
    with pytest.raises(ValueError):
        await result_within(answer("one"), PATIENCE)

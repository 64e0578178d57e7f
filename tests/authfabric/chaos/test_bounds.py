"""A step of a run that does not end is named, with the place where it waits."""

from __future__ import annotations

import asyncio

import pytest

from authfabric.chaos.runner.bounds import NeverEnded, bounded
from tests.waiting import PATIENCE


async def inner() -> None:
    await asyncio.Event().wait()


async def outer() -> None:
    await inner()


async def test_a_step_that_never_ends_is_named_with_the_place_where_it_waits():
    with pytest.raises(NeverEnded, match=r"rolling-restart did not end .* outer \(line .*inner \(line "):
        await bounded("rolling-restart", outer(), 0.05)


async def test_a_step_that_ends_returns_its_result_and_raises_its_error():
    async def read(text: str) -> int:
        return int(text)

    assert await bounded("reading", read("1"), PATIENCE) == 1
    with pytest.raises(ValueError):
        await bounded("reading", read("one"), PATIENCE)

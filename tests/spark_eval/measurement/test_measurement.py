"""A measurement is watched: it goes on for as long as anything is done, and no longer."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from spark_eval.measurement import measurement
from spark_eval.measurement.measurement import Measurement, Stalled

TRACE = pa.table({"a": [1]})


async def test_one_that_goes_on_is_not_ended(monkeypatch):
    monkeypatch.setattr(measurement, "STALLED_SECONDS", 0.5)
    done = []

    async def run(advance):
        for _ in range(8):
            await asyncio.sleep(0.1)
            advance(1)
        return TRACE

    assert await Measurement("slow", run).watched(done.append) is TRACE
    assert done == [1] * 8


async def test_one_in_which_nothing_happens_any_more_is_ended(monkeypatch):
    monkeypatch.setattr(measurement, "STALLED_SECONDS", 0.05)

    async def run(advance):
        advance(1)
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match=r"nothing was done for 0\.05 s"):
        await Measurement("stuck", run).watched(lambda _: None)


async def test_its_own_deadlines_are_its_own():
    async def run(advance):
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer"):
        await Measurement("late", run).watched(lambda _: None)

"""Whoever ends a command by a signal finds nothing half written behind it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys

import pytest

from spark_eval.runtime import run_interruptible

IDLE = """
import sys, time
from pathlib import Path
from spark_eval.runtime import lazy_session
from spark_eval.runtime import whole_folder

with lazy_session(), whole_folder(Path(sys.argv[1]), "mark") as folder:
    (folder / "half").write_text("")
    print("busy", flush=True)
    while True:
        time.sleep(0.05)
"""
FINALIZING = """
import sys, time
from pathlib import Path
from spark_eval.runtime import lazy_session
from spark_eval.runtime import whole_folder

class Slow:
    def __del__(self):
        print("busy", flush=True)
        while True:
            time.sleep(0.05)

with lazy_session(), whole_folder(Path(sys.argv[1]), "mark") as folder:
    (folder / "half").write_text("")
    Slow()
    while True:
        time.sleep(0.05)
"""
"""Waits in a finalizer, out of which Python lets no exception."""
WRITING = """
import sys, threading, time
from pathlib import Path
from spark_eval.runtime import SparkOptions, lazy_session
from spark_eval.runtime import whole_folder

def slowly(batches):
    import time
    for batch in batches:
        yield batch
        time.sleep(0.2)

def watch(folder):
    while not any(folder.rglob("*.parquet")):
        time.sleep(0.05)
    print("busy", flush=True)

with lazy_session(SparkOptions("local[2]")) as session, whole_folder(Path(sys.argv[1]), "mark") as folder:
    threading.Thread(target=watch, args=(folder,), daemon=True).start()
    numbers = session().range(0, 4000, 1, 4000)
    numbers.mapInArrow(slowly, "id long").write.parquet(str(folder / "decisions"))
"""

CALLED = """
import asyncio, sys
from pathlib import Path
from spark_eval.runtime import ending_in_order, run_interruptible, whole_folder

async def work(folder):
    def called():
        print("busy", flush=True)
        end = asyncio.get_running_loop().time() + 0.5
        while asyncio.get_running_loop().time() < end:  # the signal comes in here
            pass
        asyncio.get_running_loop().call_soon(called)

    asyncio.get_running_loop().call_soon(called)
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)  # blocks end while the loop still runs
        (folder / "ended").write_text("")

with ending_in_order(), whole_folder(Path(sys.argv[1]), "mark") as folder:
    run_interruptible(work(Path(sys.argv[1]).parent))
"""
"""Is in a callback of the event loop nearly all the time."""


def end(program, folder, number):
    """What is left in the folder when a program was ended in the middle, and how it ended."""
    folder = folder / "work"
    folder.mkdir()
    command = [sys.executable, "-c", program, str(folder / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "busy\n"
        process.send_signal(number)
        try:
            process.wait(60)
        finally:
            process.kill()
    return sorted(folder.iterdir()), process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_half_written_vanishes(tmp_path, number):
    assert end(IDLE, tmp_path, number) == ([], 128 + number)


def test_a_signal_in_the_middle_of_a_finalizer_ends_it_too(tmp_path):
    assert end(FINALIZING, tmp_path, signal.SIGINT) == ([], 128 + signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_callback_ends_the_loop_in_order(tmp_path, number):
    left, code = end(CALLED, tmp_path, number)
    assert ([each.name for each in left], code) == (["ended"], 128 + number)


def test_a_signal_counts_although_the_work_that_it_cancels_ends_as_if_nothing_were():
    def tell(number: int, frame: object) -> None:
        raise InterruptedError(number)

    async def work() -> None:
        signal.raise_signal(signal.SIGTERM)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    before = signal.signal(signal.SIGTERM, tell)
    try:
        with pytest.raises(InterruptedError):
            run_interruptible(work())
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.cluster
def test_what_spark_is_writing_vanishes_too(tmp_path):
    assert end(WRITING, tmp_path, signal.SIGTERM) == ([], 128 + signal.SIGTERM)

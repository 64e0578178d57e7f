"""Work on the event loop that a signal ends in order, wherever it arrives.

The loop reports what is raised in a callback and goes on: a signal that raised there would be lost.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import TypeVar

from bus.runtime import run_fast
from spark_eval.runtime.session import ENDING

Result = TypeVar("Result")


def run_interruptible(work: Coroutine[object, object, Result]) -> Result:
    """Run to the end; or, at a signal, cancel it, wait until its blocks have ended, and have the signal once more."""
    if threading.current_thread() is not threading.main_thread():  # no other is told of signals
        return run_fast(work)
    came: list[signal.Signals] = []
    before = {each: signal.getsignal(each) for each in ENDING}
    try:
        result = run_fast(_watched(work, came))
        if not came:
            return result
    except BaseException:
        if not came:
            raise
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    signal.raise_signal(came[0])
    raise asyncio.CancelledError  # whoever handles the signal lets the process live


async def _watched(work: Coroutine[object, object, Result], came: list[signal.Signals]) -> Result:
    loop, working = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def end(number: signal.Signals) -> None:
        if not came:  # what ends is not disturbed
            working.cancel()
        came.append(number)

    for each in ENDING:
        loop.add_signal_handler(each, end, each)
    try:
        return await working
    finally:
        for each in ENDING:
            loop.remove_signal_handler(each)

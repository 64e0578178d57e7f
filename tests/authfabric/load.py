"""Many callers who ask without pause while something happens to the fabric."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from pep import Enforcer
from tests.waiting import eventually

QUESTIONS = [
    ("alice", "/sales/q1", "read", True),
    ("alice", "/sales/budget/New York", "read", True),
    ("bob", "/sales/q1", "read", False),
    ("bob", "/public/menu", "read", True),
]
"""What the default policies say."""


class Load:
    """What was answered so far: how many, and whatever was not decided, or decided wrongly."""

    def __init__(self) -> None:
        self.answered = 0
        self.failures: Counter[str] = Counter()

    async def more(self, count: int = 200) -> None:
        """Return when so many more questions have been answered."""
        goal = self.answered + count
        await eventually(lambda: self.answered >= goal, seconds=60.0)

    async def ask(self, pep: Enforcer, number: int) -> None:
        subject, thing, action, allowed = QUESTIONS[number % len(QUESTIONS)]
        decision = await pep.check(subject, thing, action)
        self.answered += 1
        if not decision.decided or decision.allowed is not allowed:
            self.failures[str(decision)] += 1


@contextlib.asynccontextmanager
async def load(*peps: Enforcer, callers: int = 4) -> AsyncIterator[Load]:
    """Ask through each PEP for the length of the block, and wait for the last answers."""
    load, stop = Load(), asyncio.Event()

    async def caller(pep: Enforcer, number: int) -> None:
        while not stop.is_set():
            await load.ask(pep, number)
            number += 1

    tasks = [asyncio.create_task(caller(pep, number)) for pep in peps for number in range(callers)]
    try:
        await load.more(50)
        yield load
    finally:
        stop.set()
        await asyncio.gather(*tasks)

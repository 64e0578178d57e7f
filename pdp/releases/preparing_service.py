"""Preparing a release: members compile its policies first, so that all change over at once.

Nothing rests on it but time. Whoever is not prepared compiles when the release is there, and stops deciding if its
lease ends before that. So a wrong answer of a member can at most make a push wait, or not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from time import monotonic

from bus.errors import BadMessage, NotConnected
from bus.nats import Connection
from bus.wire import Prepared, pack, subjects, unpack_prepared

ASK_SECONDS = 1.0
"""Seconds between two requests for the members' progress."""
HEARD_SECONDS = 3.0
"""Seconds of silence after which a member is no longer waited for."""
FIRST_SECONDS = 1.5
"""Seconds within which running members answer for the first time."""
MOST_MEMBERS = 4096


class Preparing:
    """Asks the members of a domain to prepare a bundle, and waits for them."""

    def __init__(self, connection: Connection, domain: str, say: Callable[[str], None]) -> None:
        self._connection = connection
        self._subject = subjects.prepare(domain)
        self._say = say
        self._heard: dict[str, tuple[Prepared, float]] = {}
        self._changed = asyncio.Event()
        self._nobody = False

    async def wait(self, preparation: bytes, seconds: float) -> None:
        """Return when nobody who is there is still preparing, at the latest after `seconds`."""
        reply = self._connection.expect(self._on_answer)
        began, said = monotonic(), ""
        try:
            while not self._nobody and (now := monotonic()) < began + seconds:
                waiting = self._waiting(now)
                if not waiting and now > began + FIRST_SECONDS:
                    return
                done = len(self._heard) - waiting
                line = f"compiled by {done} of {len(self._heard)} members so far" if waiting else said
                if line != said:
                    said = line
                    self._say(line)
                with contextlib.suppress(NotConnected):
                    self._connection.send(self._subject, preparation, reply)
                await self._news()
        finally:
            self._connection.forget(reply)

    async def _news(self) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ASK_SECONDS):
                await self._changed.wait()

    def _waiting(self, now: float) -> int:
        """How many are there and not done."""
        return sum(
            not each.done and not each.problem and now - at < HEARD_SECONDS
            for each, at in self._heard.values()
        )

    def _on_answer(self, payload: bytes, nobody: bool) -> None:
        if nobody:
            self._nobody = True
            self._changed.set()
            return
        try:
            answer = unpack_prepared(payload)
        except BadMessage:
            return
        known = self._heard.get(answer.member)
        if known is not None or len(self._heard) < MOST_MEMBERS:
            self._heard[answer.member] = answer, monotonic()
        if known is None or known[0] != answer:
            self._changed.set()


def report_prepared(connection: Connection, reply: str, prepared: Prepared) -> None:
    """Tell whoever asked how far a member is."""
    with contextlib.suppress(NotConnected):
        connection.send(reply, pack(prepared))

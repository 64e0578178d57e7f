"""Reporting which release this process has applied: after each change, to a roll call, and every few seconds.

A status is signed when it changes, by the key of the connection's credentials, or by a key made for this process where
the bus asks for none: either way nobody else can send one in its name. It is repeated as it was signed, so whoever has
verified it once need not do so again. A roll call that carries a word of its own is answered by a status signed anew,
with that word and the member's details: so its date tells how the member's clock is.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from time import monotonic, time
from typing import Self

from msgspec.structs import replace

from authz import Identity
from bus.errors import NotConnected
from bus.nats import Connection, Subscription
from bus.runtime import Work, begin_work
from bus.wire import MemberDetails, MemberStatus, pack, subjects

REPEAT_SECONDS = 10.0
"""Maximum seconds between two status messages of a member."""
SPREAD_SECONDS = 0.5
"""Time over which members spread their answers to a roll call: there may be thousands."""
ANSWER_SECONDS = 1.0
"""Minimum seconds between two answers of a member to roll calls."""
MOST_CALLS = 16
"""Maximum calls for details that one answer names."""
MOST_CALL_BYTES = 16
"""Maximum bytes of the token that a request for details carries."""


class StatusReporter:
    """`async with StatusReporter(bus, MemberStatus("pdp-1", "pdp", domain, 0)) as me`, then `me.say(7, hash)`."""

    def __init__(
        self,
        connection: Connection,
        status: MemberStatus,
        details: Callable[[tuple[bytes, ...]], MemberDetails] | None = None,
    ) -> None:
        """`details` says more about the member, to the roll calls that are given to it."""
        self.status = status
        self._details = details
        self._details_for: list[bytes] = []
        self._connection = connection
        held = connection.credentials
        self._identity = Identity.generate() if held is None else held.identity
        self._signed_at = 0.0
        self._word = self._sign(status)
        self._answered_at = float("-inf")
        self._answering: asyncio.TimerHandle | None = None
        self._calls: Subscription | None = None
        self._repeating: Work | None = None

    async def __aenter__(self) -> Self:
        calls = subjects.roll_call(self.status.domain)
        self._calls = await self._connection.listen(calls, self._on_call)
        self._connection.on_ready.append(self._answer_soon)
        self._repeating = begin_work(self._repeat)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.on_ready.remove(self._answer_soon)
        if self._repeating is not None:
            self._repeating.cancel()
        if self._answering is not None:
            self._answering.cancel()
        self._word = self._sign(replace(self.status, leaving=True))
        self._send()
        if self._calls is not None:
            await self._calls.cancel()

    def say(self, epoch: int, release: str, problem: str = "") -> None:
        """Tell everyone which release is applied, at once if that is news. A problem says what is in the way."""
        status = replace(self.status, epoch=epoch, release=release, ok=not problem, problem=problem)
        if status != self.status:
            self.status = status
            self._word = self._sign(status)
            if self._answering is not None and not self._details_for:  # this is the answer
                self._answering.cancel()
                self._answering = None
            self._send()

    async def _repeat(self) -> None:
        while True:
            self._send()
            await asyncio.sleep(REPEAT_SECONDS * random.uniform(0.8, 1.0))

    def _on_call(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if 0 < len(payload) <= MOST_CALL_BYTES and len(self._details_for) < MOST_CALLS:
            self._details_for.append(payload)
        self._answer_soon()

    def _answer_soon(self) -> None:
        """Somebody calls the roll, or the connection is back and others may have forgotten this member."""
        if self._answering is None:
            soon = max(random.uniform(0, SPREAD_SECONDS), self._answered_at + ANSWER_SECONDS - monotonic())
            self._answering = asyncio.get_running_loop().call_later(soon, self._answer)

    def _answer(self) -> None:
        self._answering = None
        self._answered_at = monotonic()
        if self._details_for and self._details is not None:
            calls, self._details_for = tuple(self._details_for), []
            self._word = self._sign(replace(self.status, packed=pack(self._details(calls))))
        self._send()

    def _sign(self, status: MemberStatus) -> bytes:
        self._signed_at = max(time(), self._signed_at + 1e-3)  # later than before, wherever the clock was set
        return pack(status.sign(self._identity, self._signed_at))

    def _send(self) -> None:
        with contextlib.suppress(
            NotConnected
        ):  # nobody could hear it; it is said again when the connection is back
            self._connection.send(subjects.members(self.status.domain), self._word)

"""Reporting, every second and after each change, which policy epoch this process has applied.

Each status is signed by the key of the connection's credentials, or by a key made for this process where the bus asks
for none: either way nobody else can send one in its name.
"""

from __future__ import annotations

import asyncio
import contextlib
from time import time
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from authz import Identity
from bus.connection import Connection
from bus.envelope import pack
from bus.errors import NotConnected
from bus.messages import MemberStatus
from bus.subjects import members

REPEAT_SECONDS = 1.0


class Membership:
    """`async with Membership(bus, MemberStatus("pdp-1", "pdp", domain, 0)) as me`, then `me.say(7, hash)`."""

    def __init__(self, connection: Connection, status: MemberStatus) -> None:
        self.status = status
        self._connection = connection
        held = connection.credentials
        self._identity = Identity.generate() if held is None else held.identity
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._repeat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
        self._send(replace(self.status, leaving=True))

    def say(self, epoch: int, release: str, problem: str = "") -> None:
        """Tell everyone which release is applied, at once if that is news. A problem says what is in the way."""
        status = replace(self.status, epoch=epoch, release=release, ok=not problem, problem=problem)
        if status != self.status:
            self.status = status
            self._send(status)

    async def _repeat(self) -> None:
        while True:
            self._send(self.status)
            await asyncio.sleep(REPEAT_SECONDS)

    def _send(self, status: MemberStatus) -> None:
        with contextlib.suppress(NotConnected):  # nobody could hear it; it is said again in a second
            self._connection.send(members(status.domain), pack(status.sign(self._identity, time())))

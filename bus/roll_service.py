"""Tracking the members of a domain, for whoever wants to know who must apply a release."""

from __future__ import annotations

import contextlib
from time import monotonic
from types import TracebackType
from typing import Self

from bus.connection import Connection, Subscription
from bus.envelope import pack
from bus.errors import NotConnected
from bus.messages import unpack_member_status, unpack_roll
from bus.rollcall import Rollcall
from bus.subjects import is_inbox, members, roll


class RollKeeper:
    """Listens to the members of a domain, and asks others whom they have heard; `answering`, it also tells."""

    def __init__(self, connection: Connection, domain: str, *, answering: bool = False) -> None:
        self.rollcall = Rollcall()
        self._connection = connection
        self._domain = domain
        self._answering = answering
        self._subscriptions: list[Subscription] = []
        self._asked = ""

    async def __aenter__(self) -> Self:
        listen = self._connection.listen
        self._subscriptions.append(await listen(members(self._domain), self._on_status))
        if self._answering:
            self._subscriptions.append(await listen(roll(self._domain), self._on_question))
        self._asked = self._connection.expect(self._on_roll)
        with contextlib.suppress(NotConnected):
            self._connection.send(roll(self._domain), b"", self._asked)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.forget(self._asked)
        with contextlib.suppress(NotConnected):
            await self._connection.cancel(self._subscriptions)

    def _on_status(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        self.rollcall.hear(unpack_member_status(payload), monotonic())

    def _on_question(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if not is_inbox(reply):
            return
        now = monotonic()
        self.rollcall.forget(now)
        for part in self.rollcall.rolls(now):
            self._connection.send(reply, pack(part))

    def _on_roll(self, payload: bytes, nobody: bool) -> None:
        if not nobody:
            self.rollcall.absorb(unpack_roll(payload), monotonic())

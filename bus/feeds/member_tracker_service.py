"""Membership of a domain: replicas track members by their status, and publishers call the roll.

A word of a member reaches one replica of each of a few groups, so that what replicas hear does not grow with their
number; and each word reaches several of them, so that no single one is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection
from time import monotonic, time
from typing import Self

from bus.errors import NotConnected
from bus.feeds.member_table import MemberTable
from bus.nats import Connection, Subscription
from bus.wire import (
    MemberList,
    MemberListRequest,
    pack,
    subjects,
    unpack_member_list,
    unpack_member_list_request,
    unpack_member_status,
)

GROUPS = 8
"""Maximum replicas that hear the same status of a member."""
ASK_SECONDS = 0.9
"""Time after the first roll call at which replicas are asked for those who have not answered: members answer sooner."""
_CALL_BYTES = 12
"""Bytes of the random token by which an answer names a request for details."""
_CALLS_KEPT = 16
"""Maximum requests for details whose time is remembered."""


class _Listener(ABC):
    """Hears the members of a domain, and what replicas have heard of them."""

    def __init__(self, connection: Connection, domain: str) -> None:
        self.members = MemberTable()
        self._connection = connection
        self._domain = domain
        self._subscriptions: list[Subscription] = []
        self._reply = ""

    async def __aenter__(self) -> Self:
        self._reply = self._connection.expect(self._on_roll)
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.forget(self._reply)
        with contextlib.suppress(NotConnected):
            await self._connection.cancel(self._subscriptions)

    @abstractmethod
    async def _start(self) -> None:
        """Listen, and ask for the first time."""

    def _ask(self, subject: str, heard: Collection[bytes] = ()) -> None:
        with contextlib.suppress(NotConnected):
            self._connection.send(subject, pack(MemberListRequest(list(heard))), self._reply)

    def _on_status(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        self.members.hear(unpack_member_status(payload), monotonic())

    def _on_roll(self, payload: bytes, nobody: bool) -> None:
        if not nobody:
            self.members.absorb(unpack_member_list(payload), monotonic())


class MemberTracker(_Listener):
    """A replica's memory of the members, told to whoever asks: `async with MemberTracker(bus, domain, name)`."""

    def __init__(self, connection: Connection, domain: str, name: str) -> None:
        super().__init__(connection, domain)
        self._group = f"roll-{zlib.crc32(name.encode()) % GROUPS}"

    async def _start(self) -> None:
        listen = self._connection.listen
        self._ask(subjects.roll_of_some(self._domain))  # before this one listens there itself
        self._subscriptions = [
            await listen(subjects.members(self._domain), self._on_status, self._group),
            await listen(subjects.roll(self._domain), self._on_question),
            await listen(subjects.roll_of_some(self._domain), self._on_question, self._group),
        ]

    def _on_question(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if not subjects.is_inbox(reply):
            return
        now, heard = monotonic(), frozenset(unpack_member_list_request(payload).heard)
        self.members.forget(now)
        for part in list(self.members.rolls(now, heard)) or [MemberList([])]:
            self._connection.send(reply, pack(part))


class MemberPoll(_Listener):
    """Asks the members themselves, and the replicas for those that are silent: `async with MemberPoll(bus, domain)`."""

    answered = False
    """Whether a replica has said, since the connection was last lost, whom else it has heard."""

    def __init__(self, connection: Connection, domain: str, *, detailed: bool = False) -> None:
        """With `detailed` members are asked for their details too, and their clocks are compared with this one."""
        super().__init__(connection, domain)
        self._detailed = detailed
        self._called: dict[bytes, float] = {}
        """When each call for details was made, by the wall clock: the last few."""

    async def _start(self) -> None:
        self._connection.on_ready.append(self._begin_anew)
        self._subscriptions = [await self._connection.listen(subjects.members(self._domain), self._on_status)]
        self._call()
        self._asking = asyncio.get_running_loop().call_later(ASK_SECONDS, self._ask_replicas)

    async def __aexit__(self, *_: object) -> None:
        self._asking.cancel()
        self._connection.on_ready.remove(self._begin_anew)
        await super().__aexit__()

    def call(self) -> None:
        """Ask every member for its status, spread over a short time, and replicas for the members they know."""
        self._call()
        self._ask_replicas()

    async def read_all(self) -> bool:
        """Handle everything that the server has for this connection; False if it cannot be known."""
        try:
            await self._connection.flush()
        except NotConnected:
            return False
        return True

    def _on_roll(self, payload: bytes, nobody: bool) -> None:
        super()._on_roll(payload, nobody)
        self.answered |= not nobody

    def _begin_anew(self) -> None:
        """Answers may have been lost with the connection."""
        self.answered = False
        self.call()

    def _on_status(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        status, now = unpack_member_status(payload), time()
        calls = () if status.details is None else status.details.calls
        called = max((self._called.get(each, 0.0) for each in calls), default=0.0)
        # It was signed after the call and before now: a clock that says so is right.
        ahead = min(0.0, status.at - called) + max(0.0, status.at - now) if called else None
        self.members.hear(status, monotonic(), ahead)

    def _call(self) -> None:
        word = secrets.token_bytes(_CALL_BYTES) if self._detailed else b""
        if word:
            self._called = dict([*self._called.items(), (word, time())][-_CALLS_KEPT:])
        with contextlib.suppress(NotConnected):
            self._connection.send(subjects.roll_call(self._domain), word)

    def _ask_replicas(self) -> None:
        self._ask(subjects.roll(self._domain), self.members.marks)

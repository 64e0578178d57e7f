"""What each server's own copy of a stream has, read from that very copy.

A server whose files were altered notices when it reads them, not before; then it answers that there is no such message,
and goes on counting it (measured, nats-server 2.15). Only the leader answers readers. But a consumer with one replica
reads the files of the server that it was put on, whether that leads or not. The meta leader chooses the server, and the
answer names it; so consumers are made until there was one on each.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from bus.errors import BusError, StoreUnavailable
from bus.nats import Connection

SECONDS = 5.0
"""How long an answer of a server is waited for."""
SILENT_SECONDS = 0.5
"""Time without a message after which the server is asked whether there are more."""
MOST_CONSUMERS = 40
"""Consumers made at most until each server has had one: of three servers one is left out in 1 of 10 million cases."""
_IDLE_NANOSECONDS = 10 * 10**9
"""How long after its last reader the server keeps a consumer that was not ended."""
_NOT_FOUND = 404
_CONSUMER, _STREAM = "$JS.API.CONSUMER", "$JS.API.STREAM"


@dataclass(frozen=True, slots=True)
class Group:
    """The servers that keep a stream, as its leader says."""

    leader: str
    """Nothing if there is no such stream."""
    current: frozenset[str]
    """Those that have everything, the leader included."""
    copies: int
    """How many the stream is to have."""
    messages: int

    @property
    def whole(self) -> bool:
        """Whether as many servers as there are to be copies say that they have everything."""
        return len(self.current) == self.copies


class _Peer(msgspec.Struct, frozen=True):
    name: str
    current: bool = False
    offline: bool = False


class _Cluster(msgspec.Struct, frozen=True):
    leader: str = ""
    replicas: list[_Peer] = []


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    description: str = ""


class _State(msgspec.Struct, frozen=True):
    messages: int = 0


class _StreamInfo(msgspec.Struct, frozen=True):
    error: _Error | None = None
    cluster: _Cluster = _Cluster()
    config: dict[str, object] = {}
    state: _State = _State()


class _ConsumerInfo(msgspec.Struct, frozen=True):
    error: _Error | None = None
    cluster: _Cluster = _Cluster()
    num_pending: int = 0


class _Done(msgspec.Struct, frozen=True):
    error: _Error | None = None


class NoSuchStream(StoreUnavailable):
    """Nobody has made the stream."""


T = TypeVar("T", _StreamInfo, _ConsumerInfo, _Done)


async def look_at_group(connection: Connection, stream: str) -> Group:
    """Who keeps a stream. Raises StoreUnavailable, as all of these do."""
    try:
        info = await _ask(connection, f"{_STREAM}.INFO.{stream}", None, _StreamInfo)
    except NoSuchStream:
        return Group("", frozenset(), 0, 0)
    leader, copies = info.cluster.leader, info.config.get("num_replicas", 1)
    current = {each.name for each in info.cluster.replicas if each.current and not each.offline}
    assert isinstance(copies, int)
    return Group(leader, frozenset({leader, *current}), copies, info.state.messages)


async def step_down(connection: Connection, stream: str, server: str) -> None:
    """Have the leader of a stream give way to this server."""
    await _ask(connection, f"{_STREAM}.LEADER.STEPDOWN.{stream}", {"placement": {"preferred": server}}, _Done)


async def resize(connection: Connection, stream: str, copies: int) -> None:
    """Let a stream have so many copies. Which server gives its own up the meta leader decides; never the leader."""
    info = await _ask(connection, f"{_STREAM}.INFO.{stream}", None, _StreamInfo)
    await _ask(connection, f"{_STREAM}.UPDATE.{stream}", {**info.config, "num_replicas": copies}, _Done)


async def read_copies(connection: Connection, stream: str, group: Group) -> Mapping[str, frozenset[int]]:
    """The numbers of the messages that can be read from each server's copy."""
    found: dict[str, frozenset[int]] = {}
    for _ in range(MOST_CONSUMERS):
        if found.keys() >= group.current:
            return found
        reader = _CopyReader(connection, stream)
        try:
            server = await reader.create()
            if server not in found:
                found[server] = await reader.read()
        finally:
            await reader.end()
    raise StoreUnavailable(
        f"no consumer of {stream} was put on {', '.join(sorted(group.current - found.keys()))}"
    )


class _CopyReader:
    """A consumer that is sent the headers of every message its server can read."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._stream = stream
        self._name = secrets.token_hex(16)
        self._place = f"{connection.own_place}.{self._name}"
        self._arrived: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

    async def create(self) -> str:
        """Begin; returns the server whose copy is read."""
        self._subscription = await self._connection.listen(self._place, self._hear)
        config = {
            "name": self._name,
            "deliver_subject": self._place,
            "deliver_policy": "all",
            "ack_policy": "none",
            "headers_only": True,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _IDLE_NANOSECONDS,
        }
        request = {"stream_name": self._stream, "config": config, "action": "create"}
        where = f"{_CONSUMER}.CREATE.{self._stream}.{self._name}"
        self._pending = (created := await _ask(self._connection, where, request, _ConsumerInfo)).num_pending
        return created.cluster.leader

    async def read(self) -> frozenset[int]:
        """The numbers of all messages up to the end."""
        numbers: set[int] = set()
        pending = self._pending
        while pending:
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    number, pending = await self._arrived.get()
                numbers.add(number)
            except TimeoutError:  # what cannot be read is passed over, and nothing is sent if it was the last
                where = f"{_CONSUMER}.INFO.{self._stream}.{self._name}"
                pending = (await _ask(self._connection, where, None, _ConsumerInfo)).num_pending
        while not self._arrived.empty():
            numbers.add(self._arrived.get_nowait()[0])
        return frozenset(numbers)

    def _hear(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        words = reply.split(".")
        if len(words) >= 9 and words[:2] == ["$JS", "ACK"]:
            self._arrived.put_nowait((int(words[-4]), int(words[-1])))

    async def end(self) -> None:
        with contextlib.suppress(BusError):
            await self._subscription.cancel()
            await _ask(self._connection, f"{_CONSUMER}.DELETE.{self._stream}.{self._name}", None, _Done)


async def _ask(connection: Connection, subject: str, request: object, kind: type[T]) -> T:
    payload = b"" if request is None else msgspec.json.encode(request)
    try:
        answer = msgspec.json.decode(await connection.ask(subject, payload, SECONDS), type=kind)
    except (BusError, msgspec.DecodeError) as error:
        raise StoreUnavailable(str(error)) from None
    if answer.error is not None:
        wrong = NoSuchStream if answer.error.code == _NOT_FOUND else StoreUnavailable
        raise wrong(answer.error.description)
    return answer

"""What each server's own copy of a stream has, read from that very copy.

A server whose files were altered notices when it reads them, not before; then it answers that there is no such message,
and goes on counting it. A server that copies a stream from such a leader stops at that message for good, and is called
current all the same (measured, nats-server 2.15). So what servers say of their copies is not enough: each is read.
Only the leader answers readers. But a consumer with one replica reads the files of the server that it was put on,
whether that leads or not. The meta leader chooses the server, and the answer names it; so consumers are made until
there was one on each. They are read window by window, so that a stream may have any size.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from time import perf_counter

import msgspec

from bus.errors import BusError, StoreUnavailable
from bus.nats import Connection
from bus.stores.jetstream_api import (
    CONSUMER,
    SECONDS,
    STREAM,
    Answer,
    Cluster,
    StreamInfo,
    StreamMissing,
    request,
    stream_info,
)

WINDOW = 5_000
"""Messages of each copy that are read together."""
MOST_DIFFERENCES = 4
"""Maximum differing windows that are examined: a copy is always made anew as a whole."""
MOST_CONSUMERS = 40
"""Maximum consumers made until each server has one; of three servers one is missed in 1 of 10 million cases."""
_IDLE_NANOSECONDS = 30 * 10**9
"""How long after its last reader the server keeps a consumer that was not ended."""


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
    last: int = 0
    """The number of the newest message."""

    @property
    def whole(self) -> bool:
        """Whether as many servers as there are to be copies say that they have everything."""
        return len(self.current) == self.copies


class _ConsumerInfo(Answer, frozen=True):
    cluster: Cluster = Cluster()


@dataclass(frozen=True, slots=True)
class Lack:
    """What a server's copy lacks and another's has."""

    first: int
    """The number of the first such message."""
    count: int
    """How many there are at least."""


async def look_at_group(connection: Connection, stream: str) -> Group:
    """Who keeps a stream. Raises StoreUnavailable, as all of these do."""
    try:
        info = await stream_info(connection, stream)
    except StreamMissing:
        return Group("", frozenset(), 0, 0)
    leader, copies = info.cluster.leader, _config(info).get("num_replicas", 1)
    current = {each.name for each in info.cluster.replicas if each.current and not each.offline}
    assert isinstance(copies, int)
    return Group(leader, frozenset({leader, *current}), copies, info.state.messages, info.state.last_seq)


async def step_down(connection: Connection, stream: str, server: str) -> None:
    """Have the leader of a stream give way to this server."""
    where = {"placement": {"preferred": server}}
    await request(connection, f"{STREAM}.LEADER.STEPDOWN.{stream}", Answer, where)


async def resize(connection: Connection, stream: str, copies: int) -> None:
    """Set the number of copies of a stream. The meta leader chooses which server loses its own; never the leader."""
    config = _config(await stream_info(connection, stream))
    await request(connection, f"{STREAM}.UPDATE.{stream}", Answer, {**config, "num_replicas": copies})


def _config(info: StreamInfo) -> dict[str, object]:
    return msgspec.json.decode(info.config, type=dict[str, object])


async def compare_copies(connection: Connection, stream: str, group: Group) -> Mapping[str, Lack]:
    """What each server cannot read, where it lacks any. While copies are compared, messages may come and go."""
    differing: list[tuple[range, Mapping[str, frozenset[int]]]] = []
    async with contextlib.aclosing(_windows(connection, stream, group)) as windows:
        async for window, found in windows:
            if len(set(found.values())) > 1:
                differing.append((window, found))
                if len(differing) == MOST_DIFFERENCES:
                    break
    lacking: dict[str, list[int]] = {}
    for window, first in differing:
        # What another had before and after, all should have had in between.
        between = await read_copies(connection, stream, group, window)
        last = await read_copies(connection, stream, group, window)
        lasting = frozenset[int]().union(*(first[each] & last[each] for each in group.current))
        for server, numbers in between.items():
            lacking.setdefault(server, []).extend(lasting - numbers)
    return {server: Lack(min(each), len(each)) for server, each in lacking.items() if each}


async def read_copies(
    connection: Connection, stream: str, group: Group, window: range | None = None
) -> Mapping[str, frozenset[int]]:
    """The numbers of the messages that can be read from each server's copy: of all, or of those in a window."""
    window = range(1, group.last + 1) if window is None else window
    async with _reading(connection, stream, group, window.start) as readers:
        return {server: await reader.read_to(window.stop - 1) for server, reader in readers.items()}


async def _windows(
    connection: Connection, stream: str, group: Group
) -> AsyncGenerator[tuple[range, Mapping[str, frozenset[int]]]]:
    """The numbers that each copy has, window by window. Half of the time goes to what else the process does."""
    async with _reading(connection, stream, group, 1) as readers:
        start = 1
        while start <= group.last:
            begun = perf_counter()
            ahead = max([await each.look_ahead() for each in readers.values()])
            stop = min(ahead, group.last) if ahead else group.last
            yield (
                range(start, stop + 1),
                {server: await reader.read_to(stop) for server, reader in readers.items()},
            )
            start = stop + 1
            await asyncio.sleep(perf_counter() - begun)


@contextlib.asynccontextmanager
async def _reading(
    connection: Connection, stream: str, group: Group, start: int
) -> AsyncIterator[Mapping[str, _CopyReader]]:
    """A reader of each server's copy, from a number on."""
    found: dict[str, _CopyReader] = {}
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(MOST_CONSUMERS):
            if found.keys() >= group.current:
                break
            reader = _CopyReader(connection, stream)
            stack.push_async_callback(reader.end)
            found.setdefault(await reader.create(start), reader)
        else:
            missing = ", ".join(sorted(group.current - found.keys()))
            raise StoreUnavailable(f"no consumer of {stream} was put on {missing}")
        yield {server: found[server] for server in group.current}


class _CopyReader:
    """A consumer that is sent the headers of every message its server can read, as many at a time as are asked for."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._stream = stream
        self._name = secrets.token_hex(16)
        self._place = f"{connection.own_place}.{self._name}"
        self._arrived: asyncio.Queue[int | None] = asyncio.Queue()
        """Numbers of messages; None after the last that there is."""
        self._ahead: list[int] = []
        """Those that were read and not asked for yet."""
        self._ended = False

    async def create(self, start: int) -> str:
        """Begin; returns the server whose copy is read."""
        self._subscription = await self._connection.listen(self._place, self._hear)
        config = {
            "name": self._name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start,
            "ack_policy": "none",
            "headers_only": True,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _IDLE_NANOSECONDS,
        }
        create = {"stream_name": self._stream, "config": config, "action": "create"}
        where = f"{CONSUMER}.CREATE.{self._stream}.{self._name}"
        return (await request(self._connection, where, _ConsumerInfo, create)).cluster.leader

    async def look_ahead(self) -> int:
        """Read about a window further, unless that was done; the newest number that was read, 0 at the end."""
        if not self._ahead and not self._ended:
            await self._fetch()
        return self._ahead[-1] if self._ahead else 0

    async def read_to(self, stop: int) -> frozenset[int]:
        """The numbers of all messages not read yet, up to this one."""
        while not self._ended and (not self._ahead or self._ahead[-1] < stop):
            await self._fetch()
        numbers = frozenset(number for number in self._ahead if number <= stop)
        self._ahead = [number for number in self._ahead if number > stop]
        return numbers

    async def _fetch(self) -> None:
        """Ask for a window of messages; what the server cannot read it passes over."""
        window = msgspec.json.encode({"batch": WINDOW, "no_wait": True})
        try:
            self._connection.send(f"{CONSUMER}.MSG.NEXT.{self._stream}.{self._name}", window, self._place)
            for _ in range(WINDOW):
                async with asyncio.timeout(SECONDS):
                    number = await self._arrived.get()
                if number is None:
                    self._ended = True
                    return
                self._ahead.append(number)
        except (BusError, TimeoutError) as error:
            raise StoreUnavailable(f"a copy of {self._stream} cannot be read: {error}") from None

    def _hear(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        words = reply.split(".")
        if len(words) >= 9 and words[:2] == ["$JS", "ACK"]:
            self._arrived.put_nowait(int(words[-4]))
        elif headers[9:12] in (b"404", b"408"):
            self._arrived.put_nowait(None)

    async def end(self) -> None:
        with contextlib.suppress(BusError):
            await self._subscription.cancel()
            await request(self._connection, f"{CONSUMER}.DELETE.{self._stream}.{self._name}", Answer)

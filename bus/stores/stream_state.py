"""How the streams of a fabric are: who leads each, which servers keep it, how much is in it, and who lags behind."""

from __future__ import annotations

import asyncio

import msgspec

from bus.errors import NotPermitted, StoreUnavailable
from bus.nats import Connection
from bus.stores.jetstream_api import CONSUMER, Answer, Cluster, StreamMissing, request, stream_info
from bus.wire import subjects

STREAMS = (
    *(f"KV_{bucket}" for bucket in (subjects.RELEASES, subjects.NEWEST, subjects.CONTENT)),
    *(f"KV_{bucket}" for bucket in (subjects.TYPES, subjects.KEYS, subjects.REVOCATIONS)),
    subjects.AUDIT,
    subjects.AUDIT_HEADS,
    subjects.PARCELS,
    subjects.BROKERS,
)
"""The streams that there may be, in the order in which they are shown."""
CURRENT_SECONDS = 5.0
"""Seconds since its last message after which a server that keeps a stream counts as away."""


class Copy(msgspec.Struct, frozen=True):
    """One server's copy of a stream, as its leader sees it."""

    server: str
    current: bool
    """Whether it has everything, and is heard."""
    silent: float
    """Seconds since it was last heard; 0 for the leader."""
    lag: int
    """Messages that it does not have yet."""


class StreamState(msgspec.Struct, frozen=True):
    """A stream as its leader describes it, or why nothing is known of it."""

    name: str
    messages: int = 0
    bytes: int = 0
    most_bytes: int = -1
    """The size at which it takes no more, or discards the oldest; -1 without a limit."""
    consumers: int = 0
    copies: list[Copy] = []
    """The leader first; none where there is one server only."""
    problem: str = ""
    hidden: bool = False
    """Whether these credentials may not look at it."""

    @property
    def quorum(self) -> bool:
        """Whether a majority of the servers that keep it have everything: only then is anything stored."""
        return not self.problem and sum(each.current for each in self.copies) * 2 >= len(self.copies)


class ConsumerState(msgspec.Struct, frozen=True):
    """Who reads a stream, and how much it has not read yet."""

    stream: str
    name: str
    waiting: int


class _Config(msgspec.Struct, frozen=True):
    max_bytes: int = -1


class _Consumer(msgspec.Struct, frozen=True):
    name: str
    num_pending: int = 0
    num_ack_pending: int = 0


class _Consumers(Answer, frozen=True):
    consumers: list[_Consumer] = []


async def stream_states(connection: Connection, seconds: float) -> list[StreamState]:
    """All streams that there are. Raises NotConnected."""
    asked = await asyncio.gather(*(_state(connection, name, seconds) for name in STREAMS))
    return [each for each in asked if each is not None]


async def consumer_states(connection: Connection, stream: str, seconds: float) -> list[ConsumerState]:
    """Who reads a stream; nobody if there is no such stream, or these credentials may not look."""
    try:
        found = await request(connection, f"{CONSUMER}.LIST.{stream}", _Consumers, seconds=seconds)
    except StoreUnavailable:
        return []
    return [
        ConsumerState(stream, each.name, each.num_pending + each.num_ack_pending) for each in found.consumers
    ]


async def _state(connection: Connection, name: str, seconds: float) -> StreamState | None:
    try:
        info = await stream_info(connection, name, seconds)
        limit = msgspec.json.decode(info.config, type=_Config).max_bytes
    except StreamMissing:
        return None
    except NotPermitted as error:
        return StreamState(name, problem=str(error), hidden=True)
    except StoreUnavailable as error:
        return StreamState(name, problem=error.problem)
    except msgspec.DecodeError as error:
        return StreamState(name, problem=str(error))
    state = info.state
    return StreamState(name, state.messages, state.bytes, limit, state.consumer_count, _copies(info.cluster))


def _copies(cluster: Cluster) -> list[Copy]:
    if not cluster.leader:
        return []
    others = [
        Copy(
            each.name,
            each.current and not each.offline and each.age < CURRENT_SECONDS,
            each.age,
            each.lag,
        )
        for each in cluster.replicas
    ]
    return [Copy(cluster.leader, True, 0.0, 0), *others]

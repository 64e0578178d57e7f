"""Where a stream stands, as its leader says; how old that word may be, and what the leader's clock shows."""

from __future__ import annotations

from dataclasses import dataclass

from bus.errors import StoreUnavailable
from bus.nats import Connection
from bus.stores.jetstream_api import StreamMissing, stream_info


@dataclass(frozen=True, slots=True)
class Position:
    """Where a stream stands."""

    revision: int
    """Of its newest entry."""
    leader: str
    """The leader's name and since when it leads; empty where there is one server only."""
    age: float
    """Seconds since a majority of the servers last acknowledged the leader: what it says was true then."""


async def ask_position(connection: Connection, stream: str, seconds: float) -> Position:
    """Where the stream stands now; at 0 if it does not exist. Raises StoreUnavailable."""
    try:
        info = await stream_info(connection, stream, seconds)
    except StreamMissing:
        return Position(0, "", 0.0)
    cluster, revision = info.cluster, info.state.last_seq
    if not cluster.replicas:
        return Position(revision, "", 0.0)
    ages = sorted(each.age for each in cluster.replicas)
    others = (len(ages) + 1) // 2  # with the leader itself these make a majority
    return Position(revision, f"{cluster.leader} {cluster.leader_since}", ages[others - 1])


async def ask_time(connection: Connection, stream: str, seconds: float) -> float:
    """The clock of the stream's leader, which dates what is stored, in Unix seconds. Raises StoreUnavailable."""
    said = (await stream_info(connection, stream, seconds)).ts
    if said is None:
        raise StoreUnavailable("it does not say what time it is")
    return said.timestamp()

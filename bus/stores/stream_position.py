"""Where a stream stands, as its leader says, and how old that word may be.

Asked by every member every second or two. So only what is needed is read of the answer: the library would turn all of
it into objects, which costs five times as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bus.errors import BusError, NoResponders, NotPermitted, ReplyTimeout, StoreUnavailable
from bus.nats import Connection

_NOT_FOUND = 404
_NANOSECOND = 1e-9


@dataclass(frozen=True, slots=True)
class Position:
    """Where a stream stands."""

    revision: int
    """Of its newest entry."""
    leader: str
    """The leader's name and since when it leads; empty where there is one server only."""
    age: float
    """Seconds since a majority of the servers last acknowledged the leader: what it says was true then."""


class _Peer(msgspec.Struct, frozen=True):
    active: int = 0
    """Nanoseconds since it was last heard."""


class _Cluster(msgspec.Struct, frozen=True):
    leader: str = ""
    leader_since: str = ""
    replicas: list[_Peer] = []


class _State(msgspec.Struct, frozen=True):
    last_seq: int = 0


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    description: str = ""


class _Info(msgspec.Struct, frozen=True):
    error: _Error | None = None
    state: _State = _State()
    cluster: _Cluster = _Cluster()


_decode = msgspec.json.Decoder(_Info).decode


async def ask_position(connection: Connection, stream: str, seconds: float) -> Position:
    """Where the stream stands now; at 0 if it does not exist. Raises StoreUnavailable."""
    try:
        info = _decode(await connection.ask(f"$JS.API.STREAM.INFO.{stream}", b"", seconds))
    except NoResponders:
        raise StoreUnavailable("no server that keeps it is there") from None
    except ReplyTimeout:
        raise StoreUnavailable(f"no answer within {seconds:g} s") from None
    except NotPermitted:
        raise
    except (BusError, msgspec.DecodeError) as error:
        raise StoreUnavailable(str(error)) from None
    if info.error is not None:
        if info.error.code == _NOT_FOUND:
            return Position(0, "", 0.0)
        raise StoreUnavailable(info.error.description)
    cluster, revision = info.cluster, info.state.last_seq
    if not cluster.replicas:
        return Position(revision, "", 0.0)
    ages = sorted(each.active * _NANOSECOND for each in cluster.replicas)
    others = (len(ages) + 1) // 2  # with the leader itself these make a majority
    return Position(revision, f"{cluster.leader} {cluster.leader_since}", ages[others - 1])

"""Everything that is kept for a network, set up by whoever guards it.

Whoever makes a stream says what it takes in and where it repeats that, whatever they may hear themselves. So on a bus
that refuses strangers only the access control service makes any, before it lets anybody in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bus.audit import AuditStore
from bus.nats import Connection
from bus.stores import HISTORY, STORAGE, StorageClass, open_bucket, open_carriage, within
from bus.wire import subjects

_BUCKETS = (subjects.CONTENT, subjects.NEWEST, subjects.KEYS)
_REPEATED = (
    subjects.TYPES,
    subjects.CONTEXT,
    subjects.ROLES,
    subjects.ISSUED,
    subjects.REVOCATIONS,
    subjects.DURABLES,
)
"""Those whose records the server repeats as they are stored."""


async def set_up(connection: Connection, audit: bool, storage: Iterable[StorageClass] = STORAGE) -> None:
    """Make every store that is not there, and guard what is; the audit stream only if wanted.

    Raises StoreUnavailable.
    """
    await open_bucket(connection, subjects.RELEASES, HISTORY, subjects.RELEASED)
    for bucket in _BUCKETS:
        await open_bucket(connection, bucket, 1)
    for bucket in _REPEATED:
        await open_bucket(connection, bucket, 1, subjects.recorded(bucket))
    await open_carriage(connection, storage)
    if audit:
        await AuditStore(connection, "").create()


COMPARED = (
    *(f"KV_{bucket}" for bucket in (subjects.RELEASES, *_BUCKETS, *_REPEATED)),
    subjects.AUDIT,
    subjects.AUDIT_HEADS,
)
"""The streams whose copies are compared: what is in force rests on them, and what can be shown later."""


@dataclass(frozen=True, slots=True)
class Copies:
    """How the copies of a stream are, as its leader says."""

    leader: str
    current: int
    """How many have everything, the leader's included."""


async def look_at_copies(connection: Connection, stream: str) -> Copies:
    """Who leads a stream, and how many servers have all of it. Raises StoreUnavailable."""
    cluster = (await within(connection.jetstream().stream_info(stream))).cluster
    if cluster is None or not cluster.leader:
        return Copies("", 1)
    current = [each for each in cluster.replicas or () if each.current and not each.offline]
    return Copies(cluster.leader, 1 + len(current))

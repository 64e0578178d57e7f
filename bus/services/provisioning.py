"""Provisioning: the streams and buckets of a network, created and configured.

Whoever makes a stream says what it takes in and where it repeats that, whatever they may hear themselves. So on a bus
that refuses strangers only the access control service makes any, before it lets anybody in.
"""

from __future__ import annotations

from collections.abc import Iterable

from bus.audit import AuditStore
from bus.nats import Connection
from bus.stores import HISTORY, STORAGE, StorageClass, open_bucket, open_carriage
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
    subjects.BROKERS,
    subjects.AUDIT,
    subjects.AUDIT_HEADS,
)
"""The streams whose copies are compared besides those of parcels: what is in force rests on them, and what can be
shown later."""

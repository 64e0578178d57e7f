"""Everything that is kept for a network, set up by whoever guards it.

Whoever makes a stream says what it takes in and where it repeats that, whatever they may hear themselves. So on a bus
that refuses strangers only the access control service makes any, before it lets anybody in.
"""

from __future__ import annotations

from bus.audit import AuditStore
from bus.connection import Connection
from bus.store import HISTORY, guard_bucket, open_bucket
from bus.subjects import (
    CONTENT,
    CONTEXT,
    ISSUED,
    KEYS,
    RELEASED,
    RELEASES,
    REVOCATIONS,
    ROLES,
    TYPES,
    recorded,
)

_BUCKETS = (CONTENT, KEYS)
_REPEATED = (TYPES, CONTEXT, ROLES, ISSUED, REVOCATIONS)
"""Those whose records the server repeats as they are stored."""


async def set_up(connection: Connection, audit: bool) -> None:
    """Make every store that is not there; the audit stream only if it is wanted. Raises StoreUnavailable."""
    await open_bucket(connection, RELEASES, HISTORY, RELEASED)
    for bucket in _BUCKETS:
        await open_bucket(connection, bucket, 1)
    for bucket in _REPEATED:
        await open_bucket(connection, bucket, 1, recorded(bucket))
    for bucket in (RELEASES, *_BUCKETS, *_REPEATED):
        await guard_bucket(connection, bucket)
    if audit:
        await AuditStore(connection, "").create()

"""Everything that is kept for a network, set up by whoever guards it.

Whoever makes a stream says what it takes in and where it repeats that, whatever they may hear themselves. So on a bus
that refuses strangers only the access control service makes any, before it lets anybody in.
"""

from __future__ import annotations

from bus.audit import AuditStore
from bus.connection import Connection
from bus.store import HISTORY, open_bucket
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


async def set_up(connection: Connection, audit: bool) -> None:
    """Make every store that is not there; the audit stream only if it is wanted. Raises StoreUnavailable."""
    await open_bucket(connection, RELEASES, HISTORY, RELEASED)
    for bucket in (CONTENT, KEYS):
        await open_bucket(connection, bucket, 1)
    for bucket in (TYPES, CONTEXT, ROLES, ISSUED, REVOCATIONS):
        await open_bucket(connection, bucket, 1, recorded(bucket))
    if audit:
        await AuditStore(connection, "").create()

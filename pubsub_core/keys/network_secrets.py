"""What all brokers of a network share: one secret, or while another takes its place both.

The first locks; any opens. A network goes over in two steps: the other is added behind the first at every broker, and
only then put first. So whatever one broker locks the others open.
"""

from __future__ import annotations

from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.hybrid import lock, unlock

SECRET_BYTES = 32


def lock_for_network(secrets: bytes, purpose: str, data: bytes) -> bytes:
    """Data as all brokers open it; as it is, where they share no secret."""
    return lock(secrets[:SECRET_BYTES], purpose, data) if secrets else data


def lock_anew_for_network(secrets: bytes, purpose: str, data: bytes) -> bytes | None:
    """The same under the first secret; None if none opens it."""
    try:
        return lock_for_network(secrets, purpose, unlock_in_network(secrets, purpose, data))
    except CannotOpen:
        return None


def unlock_in_network(secrets: bytes, purpose: str, data: bytes) -> bytes:
    """What one of the secrets opens. Raises CannotOpen."""
    if not secrets:
        return data
    for start in range(0, len(secrets), SECRET_BYTES):
        try:
            return unlock(secrets[start : start + SECRET_BYTES], purpose, data)
        except CannotOpen:
            continue
    raise CannotOpen

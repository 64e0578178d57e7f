"""One-way function trees: what a group's members and its manager compute alike, and what they say to each other.

Sherman and McGrew, Key Establishment in Large Dynamic Groups Using One-Way Function Trees (2003). Members sit at
the leaves of a binary tree. Each knows the keys from its leaf to the root and, of each sibling on that way, the
blinded key only:

    blind(x) = g(key(x));    key(parent) = f(blind(left), blind(right));    the group's secret is the root's key

To change a key is to tell the other half of each level the new blind: O(log n) short messages.

The published scheme falls to two who meet: one, evicted, still knows a blind that another is given when it joins
later; together they compute the keys of the time between (Horng 2002; Ku and Chen 2003). Here every rekeying turns all
blinds by a one-way function, at no cost in messages, so that whoever joins is given none that was ever in use before.
Invariant: all who are not members in some epoch, past and future ones together, cannot compute its secret.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pubsub_core.keys import CannotOpen

NONCE_BYTES = 12
CHECK_BYTES = 16

Draw = Callable[[int], bytes]
"""What draws random bytes: `os.urandom`."""


def blind(key: bytes) -> bytes:
    """The blinded form of a node's key, which does not give the key away."""
    return hmac.digest(key, b"blind", "sha256")


def turn(blinded: bytes) -> bytes:
    """A blind in the next version: easily computed from this one, and this one not from it."""
    return hmac.digest(blinded, b"turn", "sha256")


def mix(left: bytes, right: bytes) -> bytes:
    """The key of a node from the blinds of its children."""
    return hmac.digest(left + right, b"mix", "sha256")


def secret_of(root: bytes, version: int) -> bytes:
    """The group's secret in a version of its tree."""
    return hmac.digest(root, b"secret" + _number(version), "sha256")


def check_of(secret: bytes) -> bytes:
    """By this a member sees that it has come to the same secret as the manager."""
    return hmac.digest(secret, b"check", "sha256")[:CHECK_BYTES]


def wrap(key: bytes, version: int, content: bytes, draw: Draw = os.urandom) -> bytes:
    """Encrypt something for all who know a key."""
    nonce = draw(NONCE_BYTES)
    return nonce + AESGCM(_wrapping(key, version)).encrypt(nonce, content, _number(version))


def unwrap(key: bytes, version: int, box: bytes) -> bytes:
    """What was wrapped. Raises CannotOpen."""
    try:
        return AESGCM(_wrapping(key, version)).decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], _number(version))
    except (InvalidTag, ValueError):
        raise CannotOpen from None


def _wrapping(key: bytes, version: int) -> bytes:
    return hmac.digest(key, b"wrap" + _number(version), "sha256")


def _number(version: int) -> bytes:
    return version.to_bytes(8, "big")


class Box(msgspec.Struct, frozen=True, array_like=True):
    """Something encrypted for those below a node."""

    node: int
    data: bytes


class Rekey(msgspec.Struct, frozen=True, array_like=True):
    """One change of the tree, told to all members at once: first some leave, then some join, then keys change."""

    version: int
    """One more than that of the tree before."""
    collapsed: tuple[int, ...] = ()
    """Nodes that gave their place to one of their children, since the other has left."""
    split: tuple[tuple[int, int], ...] = ()
    """Leaves that gave their place to a new node, and are now its left child."""
    leaves: tuple[Box, ...] = ()
    """New keys of leaves, each for its member alone."""
    blinds: tuple[Box, ...] = ()
    """New blinds, each for those below the sibling."""
    check: bytes = b""

    @property
    def cost(self) -> int:
        """How many encrypted messages it holds."""
        return len(self.leaves) + len(self.blinds)


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One level of the way from a leaf to the root."""

    node: int
    key: bytes
    blinded: bytes
    """The blind of that key."""
    left: bool = True
    """Whether the node is its parent's left child."""
    sibling: bytes = b""
    """The sibling's blind; nothing at the root."""


class Seat(msgspec.Struct, frozen=True, array_like=True):
    """All that a member has to know in one version of the tree."""

    version: int
    way: tuple[Step, ...]
    """From its leaf to the root."""

"""Cover traffic: a box in every interval, padded to one of few sizes, also with nothing to say.

Whoever watches the servers sees one box at each tick and learns neither when an event was published nor, beyond its
size class, how much was said. A box is sealed under a key of its own, and that key for each key group of the type: so
whoever may read any of it can open the box, and an empty one looks like any other.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from authz.errors import UNREADABLE
from pubsub_core.keys.derivation import KEY_BYTES
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.opening import open_one
from pubsub_core.keys.padding import pad, unpad
from pubsub_core.keys.plan import Plan
from pubsub_core.keys.ring import KeyRing
from pubsub_core.keys.sealing import Binding, Sealed, Sealer

SIZES = (4096, 16_384, 65_536, 262_144)
"""Boxes have one of these sizes, or a multiple of the last."""
_NONCE = bytes(12)
"""Each box has a key of its own."""
_encode = msgspec.msgpack.Encoder().encode
_decode_messages = msgspec.msgpack.Decoder(list[bytes]).decode


class Box(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages, and the key to them for each group."""

    time: float
    keys: tuple[Sealed, ...]
    content: bytes


_decode = msgspec.msgpack.Decoder(Box).decode


def seal_box(binding: Binding, groups: Collection[str], sealer: Sealer, messages: Sequence[bytes]) -> bytes:
    """A box with some messages, or none, for these key groups. Raises KeyMissing."""
    key = os.urandom(KEY_BYTES)
    keys = tuple(sealer.seal_for(group, binding, (key,)) for group in groups)
    content = AESGCM(key).encrypt(_NONCE, pad(_encode(messages), SIZES), _encode(binding))
    return _encode(Box(binding.time, keys, content))


def read_box(data: bytes) -> Box:
    """A box as it came. Raises CannotOpen."""
    try:
        return _decode(data)
    except UNREADABLE:
        raise CannotOpen from None


def open_box(box: Box, binding: Binding, plan: Plan, ring: KeyRing, sender: str) -> list[bytes]:
    """The messages in a box, by whichever group's key is held here. Raises CannotOpen."""
    for sealed in box.keys:
        try:
            (key,) = open_one(ring, binding, sealed, plan.sizes, sender)
            if not isinstance(key, bytes):
                continue
            return _decode_messages(unpad(AESGCM(key).decrypt(_NONCE, box.content, _encode(binding))))
        except (CannotOpen, InvalidTag, ValueError, *UNREADABLE):
            continue
    raise CannotOpen

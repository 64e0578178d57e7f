"""Cover traffic between two brokers: a box in every interval, padded to one of few sizes, also with nothing to say.

Whoever watches the servers sees one box at each tick and learns neither when an event was published nor, beyond its
size class, how much was said. The boxes are sealed under what only the two brokers share, so an empty one looks like
any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pubsub_core.keys.derivation import derive
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.padding import pad, unpad

Message: TypeAlias = tuple[int, bytes]
"""What kind it is, and what it says."""

SIZES = (4096, 16_384, 65_536, 262_144)
"""Boxes have one of these sizes, or a multiple of the last."""
MAX_BOX_BYTES = 256_000
"""When so much is to be said, it is said in several boxes."""
_NONCE_BYTES = 12
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Message]).decode


def seal_box(secret: bytes, sender: str, messages: Sequence[Message]) -> bytes:
    """A box with some messages, or none."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + _cipher(secret).encrypt(nonce, pad(_encode(messages), SIZES), sender.encode())


def open_box(secret: bytes, sender: str, box: bytes) -> list[Message]:
    """The messages in a box. Raises CannotOpen."""
    try:
        padded = _cipher(secret).decrypt(box[:_NONCE_BYTES], box[_NONCE_BYTES:], sender.encode())
        return _decode(unpad(padded))
    except (InvalidTag, ValueError, msgspec.DecodeError):
        raise CannotOpen from None


def boxfuls(messages: Iterable[Message]) -> list[list[Message]]:
    """Messages in parts that each fit a box; one empty part if there are none."""
    parts: list[list[Message]] = [[]]
    size = 0
    for message in messages:
        if parts[-1] and size + len(message[1]) > MAX_BOX_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(message)
        size += len(message[1])
    return parts


def _cipher(secret: bytes) -> AESGCM:
    return AESGCM(derive(secret, "steady stream"))

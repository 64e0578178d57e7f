"""How events are kept from those who can read the disk: bodies sealed, values that are searched for blinded.

Each row is sealed by AES-256-GCM under a random nonce, and bound to its place: type, publisher, time and number. One
key may seal 2^32 rows before two nonces are likely to meet. A blinded value is a keyed hash: whoever reads the disk can
count equal values, and read none. Every row also carries a link that follows from the row before, so that a row taken
out, put in or moved shows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from authz.predicate import Scalar

KEY_BYTES = 32
BLIND_BYTES = 16
LINK_BYTES = 16
NONCE_BYTES = 12

MOST_BLINDED = 4_096
"""Maximum blinded values remembered: those that are searched by come again and again."""

Body: TypeAlias = "bytes | msgspec.Raw"
Link: TypeAlias = bytes
Sealed: TypeAlias = tuple[bytes, Link]

START: Link = bytes(LINK_BYTES)
"""The link before the first row."""


class EventCipher:
    """Seals, blinds and links with keys derived from one secret."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a history key has {KEY_BYTES} bytes, not {len(secret)}")
        self._cipher = AESGCM(_derive(secret, b"seal"))
        self._blind = hashlib.blake2b(digest_size=BLIND_BYTES, key=_derive(secret, b"blind"))
        self._link = hashlib.blake2b(digest_size=LINK_BYTES, key=_derive(secret, b"link"))
        self._blinded = lru_cache(MOST_BLINDED, typed=True)(self._blind_anew)

    def seal(self, body: bytes, place: bytes) -> bytes:
        """The body as it is kept."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, body, place)

    def seal_chain(self, bodies: Sequence[Body], places: Sequence[bytes], link: Link) -> list[Sealed]:
        """Bodies as they are kept, each with the link that follows from the one before, beginning with `link`."""
        drawn = os.urandom(NONCE_BYTES * len(bodies))  # at once: for each it takes as long as sealing does
        nonces = [drawn[start : start + NONCE_BYTES] for start in range(0, len(drawn), NONCE_BYTES)]
        encrypt, next_link, chain = self._cipher.encrypt, self.link, list[Sealed]()
        for body, place, nonce in zip(bodies, places, nonces, strict=True):
            sealed = nonce + encrypt(nonce, body, place)
            link = next_link(link, sealed, place)
            chain.append((sealed, link))
        return chain

    def open(self, sealed: bytes, place: bytes) -> bytes | None:
        """The body, or None if it is not what was sealed for this place."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place)
        except (InvalidTag, ValueError):
            return None

    def blind(self, attribute: str, value: Scalar) -> bytes:
        """What stands for a value of an attribute: the same for numbers that are equal, as in every comparison."""
        return self._blinded(attribute, value)

    def _blind_anew(self, attribute: str, value: Scalar) -> bytes:
        # Adding nothing makes one zero of the two that are equal.
        text = f"{attribute}\0{_kind(value)}\0{value if isinstance(value, str) else float(value) + 0.0!r}"
        hashed = self._blind.copy()
        hashed.update(text.encode())
        return hashed.digest()

    def link(self, before: Link, sealed: bytes, place: bytes) -> Link:
        hashed = self._link.copy()
        hashed.update(b"".join((before, len(place).to_bytes(4), place, sealed)))
        return hashed.digest()


def _kind(value: Scalar) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _derive(secret: bytes, use: bytes) -> bytes:
    return hashlib.blake2b(use, digest_size=KEY_BYTES, key=secret, person=b"af history").digest()

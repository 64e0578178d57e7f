"""Pairwise authenticity: two parties compute one key that nobody else can, and authenticate answers by it.

Diffie-Hellman over Curve25519 (RFC 7748), HKDF (RFC 5869), keyed BLAKE2b (RFC 7693). Invariant: a tag that
holds was made by the one other party that knows the key, for exactly this question, asked on this subject,
and exactly this answer. Either party could have made it, so it proves nothing to anybody else.
"""

from __future__ import annotations

import hashlib
from hmac import compare_digest
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from authz.crypto.identity import Identity
from authz.errors import InvalidKey

KEY_BYTES = 32
TAG_BYTES = 16
_PURPOSE = "agreement"
_INFO = b"authfabric answers 1\0"


class AgreementKey:
    """One party's X25519 key pair, by which it agrees on a key with each other. It never shows its private half."""

    __slots__ = ("_private", "public")

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Self:
        return cls(X25519PrivateKey.generate())

    @classmethod
    def of(cls, identity: Identity) -> Self:
        """The agreement key that belongs to an identity: always the same, so a restart changes nothing."""
        return cls(X25519PrivateKey.from_private_bytes(identity.derive(_PURPOSE)))

    def shared(self, other: bytes) -> bytes:
        """The Diffie-Hellman secret shared with another party. Raises InvalidKey if `other` is no public key."""
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:
            raise InvalidKey("an agreement key must be a point of Curve25519, in 32 bytes") from None

    def __repr__(self) -> str:
        return f"AgreementKey({self.public.hex()})"


class AnswerMac:
    """Authenticates the answers that one decider gives one asker."""

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes) -> None:
        self._keyed = hashlib.blake2b(key=key, digest_size=TAG_BYTES)

    @classmethod
    def of_asker(cls, own: AgreementKey, decider: bytes) -> Self:
        """As the asker computes it, from the decider's agreement key. Raises InvalidKey."""
        return cls(_derive(own.shared(decider), own.public, decider))

    @classmethod
    def of_decider(cls, own: AgreementKey, asker: bytes) -> Self:
        """As the decider computes it, from the asker's agreement key. Raises InvalidKey."""
        return cls(_derive(own.shared(asker), asker, own.public))

    def tag(self, subject: str, question: bytes, answer: bytes) -> bytes:
        """The message authentication code of an answer, bound to the question and to the subject it was asked on."""
        keyed, where = self._keyed.copy(), subject.encode()
        # The lengths keep anything from passing for the end of the one or the beginning of the next.
        lengths = (len(where) << 64 | len(question)).to_bytes(16, "big")
        keyed.update(lengths + where + question + answer)
        return keyed.digest()

    def holds(self, tag: bytes, subject: str, question: bytes, answer: bytes) -> bool:
        return compare_digest(tag, self.tag(subject, question, answer))


def _derive(secret: bytes, asker: bytes, decider: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=_INFO + asker + decider).derive(secret)

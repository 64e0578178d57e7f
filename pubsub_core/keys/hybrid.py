"""Hybrid encryption to a key group manager, over servers that are trusted with nothing.

A question is encrypted to the manager's X25519 key under a key pair drawn for it alone, and signed inside by whoever
asks; so nobody else sees who asks for what, with which capability. The answer is encrypted to the same pair: it
cannot be read later, even by whoever comes to have the asker's own key.

All replicas of a manager share its identity. What else they must share is derived from its private key. No secret comes
of a signature: those are shown to others, and some are made over what others chose.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from authz import Identity
from pubsub_core.keys.derivation import SALT_BYTES, derive
from pubsub_core.keys.errors import CannotOpen

_NONCE = bytes(12)
"""Each key here encrypts one thing only."""


class Question(msgspec.Struct, frozen=True, array_like=True):
    """A question as it travels."""

    asker: bytes
    """The public half of the pair drawn for it."""
    box: bytes


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What the two sides of one question share: it encrypts the answer."""

    secret: bytes

    def close(self, answer: bytes) -> bytes:
        """An answer as it travels. A salt tells it from another answer to the same question."""
        return lock(self.secret, "answer", answer)

    def open(self, box: bytes) -> bytes:
        """The answer. Raises CannotOpen."""
        return unlock(self.secret, "answer", box)


def ask(manager: bytes, content: bytes) -> tuple[Question, Exchanged]:
    """Encrypt a question to a manager's exchange key. Raises CannotOpen if that is no such key."""
    pair = X25519PrivateKey.generate()
    public = pair.public_key().public_bytes_raw()
    shared = Exchanged(exchanged(pair, manager, public + manager))
    return Question(public, lock(shared.secret, "question", content)), shared


class Secrets:
    """What all replicas of a key manager have in common by its identity alone."""

    def __init__(self, identity: Identity) -> None:
        root = identity.derive("secrets of a key manager")
        self._pair = X25519PrivateKey.from_private_bytes(derive(root, "exchange"))
        self.public = self._pair.public_key().public_bytes_raw()
        self._state = derive(root, "state")

    def hear(self, question: Question) -> tuple[bytes, Exchanged]:
        """What was asked, and how to answer. Raises CannotOpen."""
        shared = Exchanged(exchanged(self._pair, question.asker, question.asker + self.public))
        return unlock(shared.secret, "question", question.box), shared

    def seal_state(self, name: str, state: bytes) -> bytes:
        """State as it may be stored where others can read and write."""
        return lock(self._state, f"state {name}", state)

    def open_state(self, name: str, sealed: bytes) -> bytes:
        """The state stored under this name. Raises CannotOpen."""
        return unlock(self._state, f"state {name}", sealed)


def lock(secret: bytes, purpose: str, content: bytes) -> bytes:
    """Encrypt something under a key of its own, derived with a salt that nobody has drawn before."""
    salt = os.urandom(SALT_BYTES)
    return salt + AESGCM(derive(secret, purpose, salt=salt)).encrypt(_NONCE, content, b"")


def unlock(secret: bytes, purpose: str, box: bytes) -> bytes:
    """What was locked. Raises CannotOpen."""
    salt, rest = box[:SALT_BYTES], box[SALT_BYTES:]
    try:
        return AESGCM(derive(secret, purpose, salt=salt)).decrypt(_NONCE, rest, b"")
    except (InvalidTag, ValueError):
        raise CannotOpen from None


def exchanged(own: X25519PrivateKey, other: bytes, context: bytes) -> bytes:
    """The secret that two keys have in common. Raises CannotOpen if the other is no key."""
    try:
        secret = own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise CannotOpen from None
    return derive(secret, "exchanged", context)

"""The plaintext cache: between two brokers that hold the same keys, events travel as they are, under one seal.

Bacon et al., Access Control in Publish/Subscribe Systems, section 5.7. To seal each attribute for a broker that can
open them all is needless work. So a batch of events for such a broker is sealed once, under a key made of every data
key that its content would have been sealed with. Invariant: it opens for whoever holds all of those, and for nobody
else; a broker that lacks one, and every server on the way, sees nothing but ciphertext.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pubsub_core.keys.derivation import SALT_BYTES, derive
from pubsub_core.keys.errors import CannotOpen, KeyMissing
from pubsub_core.keys.numbers import Numbers, nonce
from pubsub_core.keys.ring import DataKey, KeyRing

_MAX_CIPHERS = 256


class Cached(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A batch of events in clear, sealed as a whole."""

    time: float
    epochs: tuple[tuple[str, int], ...]
    """The groups whose keys it takes, and the epochs of the keys."""
    salt: bytes
    number: int
    data: bytes


class CacheSealer:
    """Seals batches for brokers that hold the keys of some groups."""

    def __init__(self, ring: KeyRing, groups: Iterable[str], numbers: Numbers | None = None) -> None:
        self._ring = ring
        self._groups = tuple(sorted(groups))
        self._numbers = numbers or Numbers()
        self._prepared: tuple[bytes, tuple[DataKey, ...]] = (b"", ())
        self._cipher: AESGCM | None = None

    def seal(self, at: float, bound: bytes, batch: bytes) -> Cached:
        """A batch for this time; `bound` says from whom to whom it goes. Raises KeyMissing."""
        keys, number = tuple(self._key(group, at) for group in self._groups), self._numbers.take()
        salt = self._numbers.salt
        if self._cipher is None or self._prepared != (salt, keys):
            self._prepared, self._cipher = (salt, keys), _cipher(keys, salt)
        data = self._cipher.encrypt(nonce(number), batch, bound)
        return Cached(at, tuple((key.group, key.epoch) for key in keys), salt, number, data)

    def _key(self, group: str, at: float) -> DataKey:
        key = self._ring.sealing(group, at)
        if key is None:
            raise KeyMissing(group)
        return key


class CacheOpener:
    """Opens batches, and keeps the ciphers of their senders ready."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self._revision = -1
        self._ciphers: dict[tuple[bytes, tuple[DataKey, ...]], AESGCM] = {}

    def open(self, cached: Cached, bound: bytes) -> bytes:
        """The batch. Raises CannotOpen, whatever is wrong."""
        if self._revision != self._ring.revision:
            self._revision = self._ring.revision
            self._ciphers.clear()  # what was made of keys that are destroyed goes with them
        keys = tuple(self._ring.opening(group, epoch, cached.time) for group, epoch in cached.epochs)
        held = tuple(key for key in keys if key is not None)
        if not keys or len(held) != len(keys) or len(cached.salt) != SALT_BYTES:
            raise CannotOpen
        cipher = self._ciphers.get((cached.salt, held)) or _cipher(held, cached.salt)
        try:
            batch = cipher.decrypt(nonce(cached.number), cached.data, bound)
        except (InvalidTag, ValueError, OverflowError):
            raise CannotOpen from None
        self._keep((cached.salt, held), cipher)
        return batch

    def _keep(self, name: tuple[bytes, tuple[DataKey, ...]], cipher: AESGCM) -> None:
        if name not in self._ciphers:
            if len(self._ciphers) >= _MAX_CIPHERS:
                self._ciphers.pop(next(iter(self._ciphers)))
            self._ciphers[name] = cipher


def _cipher(keys: tuple[DataKey, ...], salt: bytes) -> AESGCM:
    """One key out of all: each by itself is of no use."""
    secret = b"".join(key.reveal() for key in keys)
    label = b"".join(key.label for key in keys)
    return AESGCM(derive(secret, "plaintext cache", label, salt))

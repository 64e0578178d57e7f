"""The plaintext cache: between two brokers that hold the same keys, events travel as they are, under one seal.

Bacon et al., Access Control in Publish/Subscribe Systems, section 5.7. To seal each attribute for a broker that can
open them all is needless work. So a batch of events for such a broker is sealed once, under a key made of every data
key that its content would have been sealed with. Invariant: it opens for whoever holds all of those, and for nobody
else; a broker that lacks one, and every server on the way, sees nothing but ciphertext.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

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
    data: memoryview
    """In the message that it came with: it may be large, and is read once."""

    @property
    def held(self) -> int:
        """The bytes of that message, which is there as long as this is."""
        return memoryview(self.data.obj).nbytes


class CacheSealer:
    """Seals batches for brokers that hold the keys of some groups."""

    def __init__(self, ring: KeyRing, groups: Iterable[str], numbers: Numbers | None = None) -> None:
        self._ring = ring
        self._groups = tuple(sorted(groups))
        self._numbers = numbers or Numbers()
        self._prepared: tuple[int, bytes] = (-1, b"")
        """For which ring and salt the cipher is."""
        self._span: _Span | None = None
        self._epochs: tuple[tuple[str, int], ...] = ()

    def seal(self, at: float, bound: bytes, batch: bytes) -> Cached:
        """A batch for this time; `bound` says from whom to whom it goes. Raises KeyMissing."""
        number = self._numbers.take()
        salt = self._numbers.salt
        span = self._span
        if span is None or self._prepared != (self._ring.revision, salt) or not span.at(at):
            span = self._span = self._prepare(at, salt)
        data = span.cipher.encrypt(nonce(number), batch, bound)
        return Cached(at, self._epochs, salt, number, memoryview(data))

    def _prepare(self, at: float, salt: bytes) -> _Span:
        """The cipher for this time, and how long its keys last."""
        keys = tuple(self._key(group, at) for group in self._groups)
        since = max((key.start for key in keys), default=-math.inf)
        until = min((self._ring.begins(group, at) for group in self._groups), default=math.inf)
        self._epochs = tuple((key.group, key.epoch) for key in keys)
        self._prepared = self._ring.revision, salt
        return _Span(_cipher(keys, salt), since, until)

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
        self._ready: dict[tuple[bytes, tuple[tuple[str, int], ...]], _Span] = {}

    def is_ready(self, cached: Cached) -> bool:
        """Whether something like this was opened before, with the keys that are held now."""
        return self._revision == self._ring.revision and (cached.salt, cached.epochs) in self._ready

    def open(self, cached: Cached, bound: bytes) -> bytes:
        """The batch. Raises CannotOpen, whatever is wrong."""
        if self._revision != self._ring.revision:
            self._revision = self._ring.revision
            self._ready.clear()  # what was made of keys that are destroyed goes with them
        name = cached.salt, cached.epochs
        span = self._ready.get(name) or self._find(cached)
        if not span.at(cached.time):
            raise CannotOpen
        try:
            batch = span.cipher.decrypt(nonce(cached.number), cached.data, bound)
        except (InvalidTag, ValueError, OverflowError):
            raise CannotOpen from None
        if name not in self._ready:
            if len(self._ready) >= _MAX_CIPHERS:
                self._ready.pop(next(iter(self._ready)))
            self._ready[name] = span
        return batch

    def _find(self, cached: Cached) -> _Span:
        keys = tuple(self._ring.at(group, epoch) for group, epoch in cached.epochs)
        held = tuple(key for key in keys if key is not None)
        if not keys or len(held) != len(keys) or len(cached.salt) != SALT_BYTES:
            raise CannotOpen
        since = max(key.start for key in held) - self._ring.skew
        until = min(key.until for key in held) + self._ring.skew
        return _Span(_cipher(held, cached.salt), since, until)


@dataclass(frozen=True, slots=True)
class _Span:
    """A cipher, and the times for which all the keys it is made of are in use."""

    cipher: AESGCM
    since: float
    until: float

    def at(self, time: float) -> bool:
        return self.since <= time < self.until


def _cipher(keys: tuple[DataKey, ...], salt: bytes) -> AESGCM:
    """One key out of all: each by itself is of no use."""
    secret = b"".join(key.reveal() for key in keys)
    label = b"".join(key.label for key in keys)
    return AESGCM(derive(secret, "plaintext cache", label, salt))

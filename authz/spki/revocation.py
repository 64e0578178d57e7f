"""Revoking a capability before it expires: numbered revocation lists, and single events that travel faster.

Only the issuer of a capability, or a key that the capability itself names for rechecks, can revoke it. An issuer may
also revoke a key: everything that it has issued to that key, and whatever it issues to it later.
Invariant: what was revoked stays revoked until it would have expired, in whatever order lists and events
arrive, and however often; and, as far as there is room, after that.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from authz.crypto import Identity, PublicKey
from authz.errors import InvalidSignature
from authz.spki.capability import Certificate, encode
from authz.spki.errors import InvalidCapability
from authz.spki.validity import MAX_TIME

MAX_NOTICE_BYTES = 16 * 1024 * 1024
KEPT = 16_384
"""How many revocations are kept of what has expired: a clock that is ahead for a while undoes none of them."""
_ID_BYTES = 32
_DOMAIN = b"authfabric revocation 1\0"
_KEY = b"authfabric revoked key 1\0"


def key_id(key: PublicKey) -> bytes:
    """What stands in a notice for everything that its issuer issues to a key."""
    return hashlib.sha256(_KEY + key.raw).digest()


class Revoked(msgspec.Struct, frozen=True, array_like=True):
    """One capability taken back, or all of a key's, and when it would have expired, for then it may be forgotten."""

    id: bytes
    until: int | None = None

    def __post_init__(self) -> None:
        if len(self.id) != _ID_BYTES or not (self.until is None or 0 < self.until <= MAX_TIME):
            raise InvalidCapability(
                "revoked", f"must be a hash of {_ID_BYTES} bytes and a time before the year 10000"
            )

    @classmethod
    def of(cls, certificate: Certificate) -> Revoked:
        """Raises MalformedCertificate if there is nothing in it to take back."""
        return cls(certificate.id, certificate.unverified().validity.end)

    @classmethod
    def of_key(cls, key: PublicKey) -> Revoked:
        """Everything issued to a key. It is never forgotten: nothing says how long the last of it is valid."""
        return cls(key_id(key))

    def lives(self, at: float) -> bool:
        return self.until is None or at < self.until

    def later(self, other: Revoked) -> Revoked:
        """Of two that name the same, the one to be forgotten later."""
        return (
            self if self.until is None or (other.until is not None and other.until <= self.until) else other
        )


class Notice(msgspec.Struct, frozen=True, array_like=True):
    """What `issuer` has taken back. With a number it is a list: all of it, as of `at`; without, an event."""

    issuer: PublicKey
    at: int
    revoked: tuple[Revoked, ...]
    """By id, in order."""
    number: int | None = None
    """Lists are numbered from 1; a higher number is newer."""
    signature: bytes = b""

    def __post_init__(self) -> None:
        ids = [each.id for each in self.revoked]
        if ids != sorted(set(ids)):
            raise InvalidCapability("revoked", "must name each capability once, in order")
        if not 0 <= self.at <= MAX_TIME or (self.number is not None and self.number < 1):
            raise InvalidCapability("revoked", "must be dated in 1970 or later, and a list numbered from 1")

    @classmethod
    def event(cls, issuer: Identity, certificate: Certificate, at: int) -> Notice:
        """Take one certificate back, at once."""
        return cls(issuer.public, at, (Revoked.of(certificate),))._sign(issuer)

    @classmethod
    def of_key(cls, issuer: Identity, key: PublicKey, at: int) -> Notice:
        """Take back everything that `issuer` has issued to a key, or ever will."""
        return cls(issuer.public, at, (Revoked.of_key(key),))._sign(issuer)

    @classmethod
    def first(cls, issuer: Identity, at: int, revoked: Iterable[Certificate] = ()) -> Notice:
        """A key's first list, often of nothing: those who recheck need one before anything is revoked."""
        named = sorted(map(Revoked.of, revoked), key=lambda each: each.id)
        return cls(issuer.public, at, tuple(named), 1)._sign(issuer)

    def following(self, issuer: Identity, at: int, added: Iterable[Certificate] = ()) -> Notice:
        """The list after this one: with what is added, without what has expired."""
        every = {each.id: each for each in self.revoked}
        for each in map(Revoked.of, added):
            every[each.id] = each.later(every.get(each.id, each))
        kept = tuple(every[id_] for id_ in sorted(every) if every[id_].lives(at))
        return Notice(self.issuer, at, kept, (self.number or 0) + 1)._sign(issuer)

    def covers(self, other: Notice) -> bool:
        """Whether this is a list of the same key that is no older, and that leaves out what has expired only."""
        if self.issuer != other.issuer or self.number is None or self.number < (other.number or 0):
            return False
        ids = {each.id for each in self.revoked}
        return all(each.id in ids for each in other.revoked if each.lives(self.at))

    def spent(self, at: float) -> bool:
        """Whether nothing of it can matter any more: it is no list, and all that it takes back has expired."""
        return self.number is None and not any(each.lives(at) for each in self.revoked)

    def verify(self) -> None:
        """Raise InvalidSignature unless the issuer signed exactly this."""
        self.issuer.verify(self.signature, self._signed())

    def _sign(self, issuer: Identity) -> Notice:
        if issuer.public != self.issuer:
            raise InvalidSignature
        return msgspec.structs.replace(self, signature=issuer.sign(self._signed()))

    def _signed(self) -> bytes:
        return _DOMAIN + encode(msgspec.structs.replace(self, signature=b""))


@dataclass(slots=True)
class Revocations:
    """All revocations known, by the key that made them. Hearing one more costs as much as that one is long."""

    revoked: dict[PublicKey, dict[bytes, Revoked]] = field(default_factory=dict)
    lists: dict[PublicKey, tuple[int, int]] = field(default_factory=dict)
    """Number and time of the newest list from each key."""
    _ends: list[tuple[int, bytes, bytes, PublicKey]] = field(default_factory=list, compare=False, repr=False)
    """A heap of what can be forgotten, the first to expire first: when, what, and whose word it is."""

    @classmethod
    def of(cls, *notices: Notice) -> Revocations:
        """What these make known. Raises InvalidSignature."""
        revocations = cls()
        for notice in notices:
            revocations.accept(notice)
        return revocations

    def accept(self, notice: Notice) -> None:
        """Heed a notice from now on. Raises InvalidSignature if its issuer did not sign it."""
        notice.verify()
        issuer = notice.issuer
        if notice.number is not None:
            self.lists[issuer] = max(self.lists.get(issuer, (0, 0)), (notice.number, notice.at))
        if not notice.revoked:
            return
        known = self.revoked.setdefault(issuer, {})
        for each in notice.revoked:
            before = known.get(each.id)
            if before is not None and before.later(each) is before:
                continue
            known[each.id] = each
            if each.until is not None:
                heapq.heappush(self._ends, (each.until, each.id, issuer.raw, issuer))

    def forget(self, at: float) -> None:
        """Drop what has expired by now, the first to expire first, as long as more is known than is kept."""
        while len(self._ends) > KEPT and self._ends[0][0] <= at:
            _, id_, _, issuer = heapq.heappop(self._ends)
            known = self.revoked.get(issuer, {})
            if id_ in known and not known[id_].lives(at):
                del known[id_]
                if not known:
                    del self.revoked[issuer]

    def drop(self, key: PublicKey) -> None:
        """Forget everything that this key has said."""
        self.revoked.pop(key, None)
        self.lists.pop(key, None)

    def heard_of(self, key: PublicKey) -> bool:
        """Whether anything that this key has said is known."""
        return key in self.revoked or key in self.lists

    def revoker(self, ids: Collection[bytes], keys: Iterable[PublicKey]) -> PublicKey | None:
        """Which of these keys has taken back what goes by one of these ids, if any."""
        return next((key for key in keys if not self.revoked.get(key, {}).keys().isdisjoint(ids)), None)

    def has_revoked(self, issuer: PublicKey, key: PublicKey) -> bool:
        """Whether an issuer has taken back everything that it issues to a key."""
        return self.revoker([key_id(key)], [issuer]) is not None

    def age(self, key: PublicKey, at: float) -> float | None:
        """How many seconds old this key's newest list is; None if none was heard."""
        newest = self.lists.get(key)
        return None if newest is None else at - newest[1]

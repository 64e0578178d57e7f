"""What role services keep in the store they share: sessions, facts, attributes of the context, revocations.

Each record stands under one name, and the last one counts: its `number` grows each time it is stored, since whoever may
write to the store can put back what was signed once. What has ended stays as a record that says so until nothing old
can be said again; then it may be swept away.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import msgspec

from authz import Identity, PublicKey
from authz.crypto import Seal
from authz.predicate import Scalar
from bus.wire import subjects
from pdp.oasis import Instance
from pdp.sessions.session import Kept

CHALLENGE_SECONDS = 30.0
"""How long a challenge may be answered."""
SWEEP_SECONDS = 4 * CHALLENGE_SECONDS
"""Seconds for which an end is remembered."""
SKEW_SECONDS = 5.0
"""How far the clocks of two role services may differ."""


class SessionRecord(msgspec.Struct, frozen=True, array_like=True, tag="session"):
    """A session. `said` is the time of the challenge that was last answered in it: nothing older is heard."""

    id: str
    principal: str
    key: str
    rules: str
    """The domain whose role rules count."""
    until: float
    said: float
    epoch: int
    """The policies by which its roles were last looked at."""
    kept: Kept = Kept()
    ended: bool = False
    number: int = 0

    @property
    def name(self) -> str:
        return f"session.{subjects.token(self.id)}"

    def over(self, now: float) -> bool:
        return self.ended and now > max(self.said, self.until) + SWEEP_SECONDS


class FactRecord(msgspec.Struct, frozen=True, array_like=True, tag="fact"):
    """Somebody says that a fact is true, or is so no longer."""

    fact: Instance
    holds: bool
    key: str
    said: float
    until: float | None = None
    number: int = 0

    @property
    def name(self) -> str:
        return f"fact.{_hash(str(self.fact))}"

    def over(self, now: float) -> bool:
        return not self.holds and now > self.said + SWEEP_SECONDS


class ContextRecord(msgspec.Struct, frozen=True, array_like=True, tag="context"):
    """Somebody says which value an attribute of the context has."""

    attribute: str
    value: Scalar | None
    key: str
    said: float
    until: float | None = None
    number: int = 0

    @property
    def name(self) -> str:
        return f"context.{_hash(self.attribute)}"

    def over(self, now: float) -> bool:
        return self.value is None and now > self.said + SWEEP_SECONDS


class RevokedRecord(msgspec.Struct, frozen=True, array_like=True, tag="revoked"):
    """An appointment counts no longer; after `expires` it would not anyway."""

    issuer: str
    serial: str
    expires: float | None
    number: int = 0

    @property
    def name(self) -> str:
        return f"revoked.{_hash(f'{self.issuer} {self.serial}')}"

    def over(self, now: float) -> bool:
        return self.expires is not None and now > self.expires + SWEEP_SECONDS


Record: TypeAlias = SessionRecord | FactRecord | ContextRecord | RevokedRecord


class Challenge(msgspec.Struct, frozen=True, array_like=True):
    """Something that was never said before, and when it was."""

    nonce: str
    at: float


class Seals:
    """How the role services of a domain, which share one key, sign what they keep and what they ask."""

    def __init__(self, domain: str, identity: Identity) -> None:
        self._identity = identity
        self._trusted = frozenset({identity.public})
        # mypy takes a union for no type, though it is one to msgspec
        self._record: Seal[Record] = Seal(f"role record in {domain}", Record)  # type: ignore[arg-type]
        self._challenge = Seal(f"role challenge in {domain}", Challenge)

    @property
    def public(self) -> PublicKey:
        return self._identity.public

    def sign_record(self, record: Record) -> bytes:
        return self._record.sign(record, self._identity)

    def open_record(self, data: bytes) -> Record:
        """Raises InvalidSignature or UntrustedSigner."""
        return self._record.open(data, self._trusted).value

    def sign_challenge(self, challenge: Challenge) -> bytes:
        return self._challenge.sign(challenge, self._identity)

    def open_challenge(self, data: bytes) -> Challenge:
        """Raises InvalidSignature or UntrustedSigner."""
        return self._challenge.open(data, self._trusted).value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def stands(said: float, at: float, now: float) -> bool:
    """Whether a record still counts against one of another time: it is no older, and its clock was not ahead."""
    return at <= said <= now + SKEW_SECONDS

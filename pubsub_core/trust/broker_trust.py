"""Broker trust: for each type, the brokers that may carry it, and whether its owner is still heard of.

A web of trust (section 5 of Belokosztolszki et al.): the owner of a type vouches for brokers, and a broker it trusts
may vouch for others, a few steps far. Whoever has vouched may take it back, and brokers hand that on too. Owners send
signed heartbeats, which brokers hand on; a broker that hears none of them for a while may have been cut off from news
of policies and of trust, and delivers nothing of that owner's types until it hears one again. An owner promises
heartbeats in its vouches, so that one never heard of is told from one that sends none. Invariant: a broker is trusted
with a type only if a chain of vouchers that are all valid now, and not taken back, leads from the type's owner, or from
a key trusted locally, to it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from authz import Identity, PublicKey
from authz.crypto import Seal
from authz.errors import InvalidSignature
from pubsub_core.trust.vouches import ALL, MAX_STEPS, Words, vouch, vouchers, withdraw

__all__ = ["ALL", "BEAT_LIMIT", "MAX_STEPS", "Web", "beat", "vouch", "vouchers", "withdraw"]

BEAT_LIMIT = 5.0
"""Seconds without a heartbeat after which an owner counts as unreachable."""


MAX_EXPECTED = 10_000
"""Maximum owners whose heartbeats are expected."""


class Beat(msgspec.Struct, frozen=True):
    """An owner is there, at this time by its own clock."""

    time: float


_BEAT = Seal("owner heartbeat", Beat)


def beat(time: float, by: Identity) -> bytes:
    return _BEAT.sign(Beat(time), by)


class _Trusted(NamedTuple):
    """Who is trusted with a type, as long as nothing else is said and nothing runs out."""

    version: int
    until: float
    brokers: frozenset[str]


class Web:
    """Who vouches for whom, and which owners are heard of."""

    def __init__(self, roots: Collection[PublicKey] = ()) -> None:
        """`roots` are trusted with every type."""
        self._roots = frozenset(map(str, roots))
        self.words = Words(self._roots)
        self._trusted: dict[tuple[str, str], _Trusted] = {}
        self._beats: dict[str, tuple[float, float, bytes]] = {}
        self.expected: frozenset[str] = frozenset()
        """The owners that were heard before a restart: out of reach until they are heard again."""

    @property
    def owners(self) -> frozenset[str]:
        """Whose types are known here."""
        return self.words.owners

    @owners.setter
    def owners(self, owners: frozenset[str]) -> None:
        self.words.owners = owners

    def pin(self, *words: bytes) -> None:
        """Keep for good what the broker was started with. Raises InvalidSignature."""
        for each in words:
            self.words.pin(each)

    def learn(self, *words: bytes) -> bool:
        """Take in vouches, and that some are taken back; says whether any was new. Raises InvalidSignature."""
        return self.words.learn(words)

    def forget(self, now: float) -> None:
        """Forget vouches that have run out."""
        self.words.forget(now)

    def trusts(self, broker: str, type_: str, owner: str, now: float) -> bool:
        """Whether the broker, by its key, may carry the type."""
        return broker == owner or broker in self._roots or broker in self.trusted(type_, owner, now)

    def would_trust(self, broker: str, type_: str, owner: str, now: float) -> bool:
        """The same of a type that somebody says there is, of which nothing is remembered."""
        return broker == owner or broker in self._roots or broker in self._find(type_, owner, now).brokers

    def trusted(self, type_: str, owner: str, now: float) -> frozenset[str]:
        """The keys of all brokers that somebody vouches for who may."""
        known = self._trusted.get((type_, owner))
        if known is None or known.version != self.words.version or now >= known.until:
            known = self._trusted[type_, owner] = self._find(type_, owner, now)
        return known.brokers

    def table(self, owner: str, now: float) -> dict[str, frozenset[str]]:
        """The brokers that are trusted with each type of an owner that somebody names; under `*`, with all others."""
        signers, reached = set[str](), {owner, *self._roots}
        named = set[str]()
        for _ in range(MAX_STEPS):
            signers |= reached
            said = [each for by in reached for each in self.words.said_by(by)]
            named.update(type_ for each in said for type_ in each.types)
            reached = {each.broker for each in said} - signers
        always = {owner, *self._roots}
        return {type_: self._find(type_, owner, now).brokers | always for type_ in named | {ALL}}

    def chain(self, start: str, broker: str, type_: str, now: float) -> tuple[bytes, ...]:
        """The shortest chain of vouches from one key to another, as to a type; nothing if there is none."""
        found: dict[str, tuple[bytes, ...]] = {start: ()}
        reached = [start]
        for _ in range(MAX_STEPS):
            further = list[str]()
            for by in reached:
                for each in self.words.trusted_by(by, type_, now) - found.keys():
                    found[each] = (*found[by], self.words.vouch_for(by, each, type_, now))
                    further.append(each)
            reached = further
        return found.get(broker, ())

    def _find(self, type_: str, owner: str, now: float) -> _Trusted:
        trusted, reached = set[str](), {owner, *self._roots}
        for _ in range(MAX_STEPS):
            reached = {each for by in reached for each in self.words.trusted_by(by, type_, now)} - trusted
            trusted |= reached
        return _Trusted(self.words.version, self.words.next_end(now), frozenset(trusted))

    def hear(self, owner: str, data: bytes, now: float) -> bool:
        """Take in an owner's heartbeat; says whether it is newer than the last. Raises InvalidSignature."""
        last, _, known = self._beats.get(owner, (0.0, 0.0, b""))
        if data == known:
            return False
        opened = _BEAT.read(data)
        if str(opened.signer) != owner:
            raise InvalidSignature
        if opened.value.time <= last or opened.value.time > now + BEAT_LIMIT:
            return False
        # How fresh it is counts from the owner's own time: one handed on for long is no newer for that.
        self._beats[owner] = opened.value.time, now, data
        return True

    def hear_any(self, data: bytes, now: float) -> bool:
        """Take in a heartbeat of whichever known owner has signed it; as `hear`. Raises InvalidSignature."""
        owner = str(_BEAT.peek(data).signer)
        return owner in self.owners and self.hear(owner, data, now)

    def expect(self, data: bytes) -> None:
        """Take an owner to be out of reach until it is heard, since it has sent this once. Raises InvalidSignature."""
        if len(self.expected) < MAX_EXPECTED:
            self.expected |= {str(_BEAT.read(data).signer)}

    @property
    def heard(self) -> frozenset[str]:
        """The owners that send heartbeats."""
        return frozenset(self._beats)

    def reachable(self, owner: str, now: float) -> bool:
        """Whether the owner was heard of lately; one that is not known to send heartbeats counts as within reach.

        A clock that was set back since prolongs nothing: how long ago it was heard is not known then.
        """
        known = self._beats.get(owner)
        if known is None:
            return owner not in self.expected and owner not in self.words.promised
        sent, heard, _ = known
        return heard - BEAT_LIMIT <= now <= sent + BEAT_LIMIT

"""Broker trust: for each type, the brokers that may carry it, and whether its owner is still heard of.

A web of trust (section 5 of Belokosztolszki et al.): the owner of a type vouches for brokers, and a broker it trusts
may vouch for others, a few steps far. Whoever has vouched may take it back, and brokers hand that on too. Owners send
signed heartbeats, which brokers hand on; a broker that hears none of them for a while may have been cut off from news
of policies and of trust, and delivers nothing of that owner's types until it hears one again. Invariant: a broker is
trusted with a type only if a chain of vouchers that are all valid now, and not taken back, leads from the type's owner,
or from a key trusted locally, to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from authz import Identity, PublicKey
from authz.errors import InvalidSignature
from authz.seal import Seal

MAX_STEPS = 4
BEAT_LIMIT = 5.0
"""Seconds without a heartbeat after which an owner is taken to be out of reach."""
ALL = "*"
WITHDRAWN_SECONDS = 10 * 366 * 86_400.0
"""How long a withdrawal is remembered: longer than any vouch should be given for."""
MAX_VOUCHES = 10_000
"""The most vouches that are remembered: more than any network needs, and few enough to bear from strangers."""


class Vouch(msgspec.Struct, frozen=True):
    """The signer trusts this broker with these types, by UUID or `*` for all it is trusted with, until this time."""

    broker: str
    types: tuple[str, ...]
    until: float
    made: float = 0.0
    withdrawn: bool = False
    """Then it takes back what the signer has said for this broker, about these types, up to when it was made."""

    def concerns(self, type_: str) -> bool:
        return ALL in self.types or type_ in self.types


class Beat(msgspec.Struct, frozen=True):
    """An owner is there, at this time by its own clock."""

    time: float


_VOUCH = Seal("broker vouch", Vouch)
_BEAT = Seal("owner heartbeat", Beat)


def vouch(broker: PublicKey, types: Iterable[str], until: float, by: Identity, made: float = 0.0) -> bytes:
    """The word of `by` for a broker."""
    return _VOUCH.sign(Vouch(str(broker), tuple(types), until, made), by)


def withdraw(broker: PublicKey, types: Iterable[str], made: float, by: Identity) -> bytes:
    """The word of `by` that a broker is no longer to be trusted."""
    return _VOUCH.sign(Vouch(str(broker), tuple(types), made + WITHDRAWN_SECONDS, made, True), by)


def beat(time: float, by: Identity) -> bytes:
    return _BEAT.sign(Beat(time), by)


class Web:
    """Who vouches for whom, and which owners are heard of."""

    def __init__(self, roots: Collection[PublicKey] = ()) -> None:
        """`roots` are trusted with every type."""
        self._roots = frozenset(map(str, roots))
        self.owners: frozenset[str] = frozenset()
        """Whose types are known here. What leads neither from them nor from a root goes first when there is no room."""
        self._vouches: dict[bytes, tuple[str, Vouch]] = {}
        self._beats: dict[str, tuple[float, float, bytes]] = {}

    def learn(self, data: bytes) -> bool:
        """Take in a vouch, or that one is taken back; says whether it was new. Raises InvalidSignature."""
        if data in self._vouches or not self._has_room():
            return False
        opened = _VOUCH.read(data)
        self._vouches[data] = str(opened.signer), opened.value
        return True

    def _has_room(self) -> bool:
        if len(self._vouches) >= MAX_VOUCHES and (trusted := self.owners | self._roots):
            for _ in range(MAX_STEPS):
                trusted |= {each.broker for by, each in self._vouches.values() if by in trusted}
            self._vouches = {data: each for data, each in self._vouches.items() if each[0] in trusted}
        return len(self._vouches) < MAX_VOUCHES

    def forget(self, now: float) -> None:
        """Forget vouches that have run out."""
        self._vouches = {data: each for data, each in self._vouches.items() if each[1].until > now}

    @property
    def vouches(self) -> tuple[bytes, ...]:
        """All that is known, to be told to others."""
        return tuple(self._vouches)

    def trusts(self, broker: str, type_: str, owner: str, now: float) -> bool:
        """Whether the broker, by its key, may carry the type."""
        return broker == owner or broker in self._roots or broker in self.trusted(type_, owner, now)

    def trusted(self, type_: str, owner: str, now: float) -> frozenset[str]:
        """The keys of all brokers that somebody vouches for who may."""
        said = [
            (by, each) for by, each in self._vouches.values() if each.until > now and each.concerns(type_)
        ]
        taken_back: dict[tuple[str, str], float] = {}
        for by, each in said:
            if each.withdrawn:
                taken_back[by, each.broker] = max(each.made, taken_back.get((by, each.broker), 0.0))
        trusted, reached = set[str](), {owner, *self._roots}
        for _ in range(MAX_STEPS):
            reached = {
                each.broker
                for by, each in said
                if by in reached and each.made > taken_back.get((by, each.broker), -1.0)
            } - trusted
            trusted |= reached
        return frozenset(trusted)

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

    @property
    def beats(self) -> dict[str, bytes]:
        """The newest of each owner, to be told to others."""
        return {owner: data for owner, (_, _, data) in self._beats.items()}

    def reachable(self, owner: str, now: float) -> bool:
        """Whether the owner was heard of lately; one that never sends heartbeats counts as within reach."""
        known = self._beats.get(owner)
        return known is None or now - known[0] <= BEAT_LIMIT

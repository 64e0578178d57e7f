"""Batch signatures: one over many events, with the publisher's credential, of which other brokers verify a sample.

A publisher signs the digests of the events that it sends together, with the time and a nonce, and shows its credential.
There is one digest for each run of events of one type. A broker that passes on some runs passes on the digests of all,
so that whoever receives them can verify those it got; what is left of a run that it takes apart it signs itself.
Invariant: an event whose proof holds was published by the credential's holder, or is what a broker vouches for that
says so, at about that time, and is not taken twice.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from authz import Identity, PublicKey
from authz.errors import InvalidSignature

DIGEST_BYTES = 16
NONCE_BYTES = 16
WINDOW = 30.0
"""Maximum seconds that a proof may be old, or early."""
_DOMAIN = b"authfabric events 2\0"

_encode = msgspec.msgpack.Encoder().encode
Encoded: TypeAlias = bytes | msgspec.Raw
"""An event as it travels."""


class Proof(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`signature` is that of the credential's holder, or of the broker `by` that vouches for what it changed."""

    credential: bytes
    time: float
    nonce: bytes
    signature: bytes = b""
    by: bytes = b""

    def sign(self, identity: Identity, digests: bytes) -> Proof:
        return msgspec.structs.replace(self, signature=identity.sign(self._signed(digests)))

    def verify(self, key: PublicKey, digests: bytes) -> None:
        """Raise InvalidSignature unless the key signed exactly these digests."""
        key.verify(self.signature, self._signed(digests))

    def _signed(self, digests: bytes) -> bytes:
        return _DOMAIN + _encode((self.credential, self.time, self.nonce, self.by, digests))


def digest(data: bytes) -> bytes:
    """What stands for events in a proof."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def all_digests(events: Sequence[Encoded], runs: Sequence[int] = ()) -> bytes:
    """The digest of each run of events, by their lengths; without them, of all events together.

    Raises InvalidSignature if there are not as many events as the lengths say.
    """
    return b"".join(map(digest, _joined(events, runs or (len(events),))))


def check_places(
    digests: bytes, places: Sequence[int], events: Sequence[Encoded], runs: Sequence[int]
) -> None:
    """Raise InvalidSignature unless each run of events is the one whose digest stands at its place."""
    if len(places) != len(runs):
        raise InvalidSignature
    for place, run in zip(places, _joined(events, runs), strict=True):
        start = place * DIGEST_BYTES
        if place < 0 or digests[start : start + DIGEST_BYTES] != digest(run):
            raise InvalidSignature


def _joined(events: Sequence[Encoded], runs: Sequence[int]) -> Iterator[bytes]:
    """The bytes of each run: where an event ends they say themselves."""
    if min(runs, default=0) < 0 or sum(runs) != len(events):
        raise InvalidSignature
    start = 0
    for length in runs:
        yield b"".join(events[start : start + length])
        start += length


class Nonces:
    """What was used within the window: a replay is refused, and so is what is too old to tell."""

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._seen: set[bytes] = set()
        self._order: deque[tuple[float, bytes]] = deque()

    def knows(self, nonce: bytes) -> bool:
        """Whether it was used within the window."""
        return nonce in self._seen

    def use(self, nonce: bytes, time: float, now: float) -> bool:
        """Whether this is the first use, in time."""
        while self._order and self._order[0][0] < now - 2 * self._window:
            self._seen.discard(self._order.popleft()[1])
        if nonce in self._seen or not abs(now - time) <= self._window or len(nonce) != NONCE_BYTES:
            return False
        self._seen.add(nonce)
        self._order.append((now, nonce))
        return True


class Scrutiny:
    """Which proofs of others are verified: a share of them, and all of whoever was caught, for a while."""

    def __init__(self, share: float, chance: Callable[[], float], after_failure: int = 1000) -> None:
        """`chance` draws numbers between 0 and 1; `after_failure` is how many are then verified without exception."""
        self.share = share
        self._chance = chance
        self._after_failure = after_failure
        self._suspects: dict[str, int] = {}

    def wants(self, sender: str) -> bool:
        """Whether the next proof from this sender is to be verified."""
        left = self._suspects.get(sender, 0)
        if left:
            self._suspects[sender] = left - 1
            return True
        return self.share >= 1.0 or self._chance() < self.share

    def caught(self, sender: str) -> None:
        """One of its proofs did not hold."""
        self._suspects[sender] = self._after_failure

"""Precise recycling: the same question is answered alike while nothing that decides about it has changed.

Invariant: an entry stamped with an epoch holds a decision that is right for its request under that epoch; nothing that
a caller can alter is shared with it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from authz import Decision, Inference, Reason, Request
from sdp_cache.inference.clock_cache import WeightedClockCache, places
from sdp_cache.validity import ChangeLog

METHOD = "precise"

Key: TypeAlias = bytes | tuple[str, str, str]

_encode = msgspec.msgpack.Encoder().encode
_duties = msgspec.msgpack.Decoder(tuple[dict[str, object], ...]).decode


class _Entry:
    __slots__ = ("decision", "duties", "epoch", "tally", "until", "used", "weight")

    def __init__(self, key: Key, decision: Decision, answer: str, epoch: int, tally: list[int]) -> None:
        inferred = Inference(METHOD, (answer,))
        self.decision = replace(decision, certificate=None, obligations=(), inferred=inferred)
        self.duties = _encode(decision.obligations) if decision.obligations else b""
        """The obligations, which are dictionaries: whoever is given the decision gets a copy of its own."""
        self.epoch = epoch
        self.tally = tally
        """The number of answers given that are like this one: it is shared with others."""
        self.until = float("inf") if decision.expires is None else decision.expires
        self.used = False
        asked = (key,) if isinstance(key, bytes) else key
        self.weight = places((*asked, decision.detail, *decision.policies, self.duties, answer))


class PreciseCache:
    """Decisions by the whole request: everything in it that may influence the decision is in the key."""

    __slots__ = ("_entries", "_log", "_tallies")

    def __init__(self, log: ChangeLog, size: int = 100_000) -> None:
        self._log = log
        self._tallies: dict[tuple[bool, Reason], list[int]] = {}
        self._entries: WeightedClockCache[Key, _Entry] = WeightedClockCache(size)

    def __len__(self) -> int:
        return len(self._entries)

    def infer(self, request: Request, now: float) -> Decision | None:
        """The decision last learned for this request, if it still holds."""
        entry = self._entries[request.key]
        if entry is None or not now < entry.until:  # nor is it before an end that is no number
            return None
        if entry.epoch != self._log.epoch and not self._renew(request, entry):
            return None
        entry.used = True
        entry.tally[0] += 1  # a Counter of outcomes takes several times as long
        return replace(entry.decision, obligations=_duties(entry.duties)) if entry.duties else entry.decision

    def learn(self, request: Request, decision: Decision, answer: str) -> None:
        """Keep an answer given under the current epoch, allow or deny alike."""
        key = request.key
        tally = self._tallies.setdefault((decision.allowed, decision.reason), [0])
        self._entries.keep(key, _Entry(key, decision, answer, self._log.epoch, tally))

    def hits(self) -> dict[tuple[bool, Reason], int]:
        """How many answers were given, by whether they allow, and why."""
        return {outcome: tally[0] for outcome, tally in list(self._tallies.items())}

    def clear(self) -> None:
        self._entries.clear()

    def _renew(self, request: Request, entry: _Entry) -> bool:
        """Restamp an entry that no change since has touched; drop any other."""
        if self._log.touched(request, entry.epoch):
            self._entries.pop(request.key, None)
            return False
        entry.epoch = self._log.epoch
        entry.decision = replace(entry.decision, epoch=entry.epoch)
        return True

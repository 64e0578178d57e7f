"""Precise recycling: the same question is answered alike while nothing that decides about it has changed.

Invariant: an entry stamped with an epoch holds a decision that is right for its request under that epoch.
"""

from __future__ import annotations

from msgspec.structs import replace

from authz import Decision, Inference, Request
from sdp_cache.bounded import SecondChance
from sdp_cache.change_log import ChangeLog

METHOD = "precise"


class _Entry:
    __slots__ = ("decision", "epoch", "until", "used")

    def __init__(self, decision: Decision, epoch: int) -> None:
        self.decision = decision
        self.epoch = epoch
        self.until = float("inf") if decision.expires is None else decision.expires
        self.used = False


class PreciseCache:
    """Decisions by the whole request: everything in it that may influence the decision is in the key."""

    __slots__ = ("_entries", "_log")

    def __init__(self, log: ChangeLog, size: int = 100_000) -> None:
        self._log = log
        self._entries: SecondChance[bytes | tuple[str, str, str], _Entry] = SecondChance(size)

    def __len__(self) -> int:
        return len(self._entries)

    def infer(self, request: Request, now: float) -> Decision | None:
        """The decision last learned for this request, if it still holds."""
        entry = self._entries[request.key]
        if entry is None or now >= entry.until:
            return None
        if entry.epoch != self._log.epoch and not self._renew(request, entry):
            return None
        entry.used = True
        return entry.decision

    def learn(self, request: Request, decision: Decision, answer: str) -> None:
        """Keep an answer given under the current epoch, allow or deny alike."""
        marked = replace(decision, certificate=None, inferred=Inference(METHOD, (answer,)))
        self._entries[request.key] = _Entry(marked, self._log.epoch)

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

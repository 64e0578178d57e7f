"""How long an SDP may serve from its caches: as long as it lately heard that it knows the newest policies.

The feed numbers its changes without gaps. A heartbeat says which number was the newest at some instant on
its sender's clock, the instant when the sender itself asked the store. Invariant: while `standing` says
FRESH, every change stored more than `seconds` ago has been applied here. For the lease runs from the
instant a heartbeat speaks of, not from when it happened to arrive: a message held up by the network, or by
this process being frozen, extends nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import msgspec

from authz.change import Heartbeat

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """How long silence of the feed is tolerated, and what happens after."""

    seconds: float = 10.0
    stale_for: float = 0.0
    """For how long after the lease what was last known may be served if no PDP answers; 0: not at all."""


class Standing(enum.Enum):
    """What may be served at an instant: anything, only what is marked stale, or nothing."""

    FRESH = "fresh"
    STALE = "stale"
    NONE = "none"


class Step(enum.Enum):
    """What to do with a change that has arrived."""

    APPLY = "apply"
    DUPLICATE = "duplicate"
    GAP = "gap"
    """Others come first: fetch what `missing` names, in order."""


class Lease:
    """The feed as one SDP has heard it. Times are Unix time."""

    __slots__ = ("_ahead", "_rules", "_until", "epoch", "fresh_until", "sequence")

    def __init__(self, rules: LeaseRules, sequence: int = 0, epoch: int = 0) -> None:
        self._rules = rules
        self.restart(sequence, epoch)

    def restart(self, sequence: int, epoch: int) -> None:
        """Stand where the store was read anew. Nothing is fresh before the next heartbeat."""
        self.sequence, self.epoch = sequence, epoch
        self._until = NEVER
        self._ahead: Heartbeat | None = None
        self.fresh_until = NEVER
        """Until when anything may be served, as things stand."""

    @property
    def missing(self) -> range:
        """The changes that are known to exist and are not applied."""
        return range(self.sequence + 1, (self._ahead.sequence if self._ahead else self.sequence) + 1)

    @property
    def diverged(self) -> bool:
        """Whether the feed contradicts what was applied: only a restart from the store can repair that."""
        return self._ahead is not None and not self.missing

    def hear(self, beat: Heartbeat, now: float) -> None:
        """Take note of a heartbeat. One older than what was applied proves nothing about the present."""
        if beat.at > now:  # a sender whose clock is ahead must not extend the lease by that
            beat = msgspec.structs.replace(beat, at=now)
        if (beat.sequence, beat.epoch) == (self.sequence, self.epoch):
            self._until = max(self._until, beat.at + self._rules.seconds)
        elif beat.sequence >= self.sequence and not self._knows_better(beat):
            self._ahead = beat
        self.fresh_until = self._until if self._ahead is None else NEVER

    def _knows_better(self, beat: Heartbeat) -> bool:
        ahead = self._ahead
        return ahead is not None and (ahead.sequence, ahead.at) > (beat.sequence, beat.at)

    def receive(self, sequence: int, epoch: int, now: float) -> Step:
        """Judge change number `sequence`. APPLY counts as done: apply it before serving again."""
        if sequence <= self.sequence:
            return Step.DUPLICATE
        if sequence > self.sequence + 1:
            self.hear(Heartbeat(epoch, sequence, NEVER), now)
            return Step.GAP
        self.sequence, self.epoch = sequence, epoch
        ahead = self._ahead
        if ahead is not None and ahead.sequence == sequence:
            self._ahead = None
            self.hear(ahead, now)
        return Step.APPLY

    def standing(self, now: float, at_least: int = 0) -> Standing:
        """What may be served to someone who must not be answered by policies older than `at_least`."""
        if self.epoch < at_least:
            return Standing.NONE
        if now < self.fresh_until:
            return Standing.FRESH
        may_be_stale = self._rules.stale_for > 0 and now < self._until + self._rules.stale_for
        return Standing.STALE if may_be_stale else Standing.NONE

"""The secondary decision point: what may be answered here and now without a PDP.

Invariants: under a lease, `infer` gives what a PDP would answer under the policies of the epoch it names,
and no policy stored longer ago than the lease is missing from those; without a lease it gives nothing. What
`last_known` gives beyond that is marked stale, and only until the limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from authz import Decision, Reason, Request
from authz.change import Heartbeat, PolicyChange
from sdp_cache.point.cache_sizes import Recycling
from sdp_cache.point.recycler import Recycler
from sdp_cache.snapshots import Snapshot
from sdp_cache.validity import Lease, LeaseRules, Standing, Step


class SecondaryPoint:
    """Caches under a lease. It must be started at a place in the feed before it answers anything."""

    __slots__ = ("_lease", "_recycler")

    def __init__(self, recycling: Recycling | None = None, rules: LeaseRules | None = None) -> None:
        self._recycler = Recycler(recycling)
        self._lease = Lease(rules or LeaseRules())

    @property
    def epoch(self) -> int:
        """The epoch to stamp a question with before it is asked of a PDP."""
        return self._recycler.epoch

    @property
    def missing(self) -> range:
        """The changes to be fetched and received, in order, before anything is answered again."""
        return self._lease.missing

    @property
    def diverged(self) -> bool:
        """Whether the feed contradicts what was applied, so that only a restart can help."""
        return self._lease.diverged

    def infer(self, request: Request, now: float, at_least: int = 0) -> Decision | None:
        """The answer, if it may be given under a lease and by policies not older than `at_least`."""
        lease = self._lease
        if not now < lease.fresh_until or at_least > lease.epoch:
            return None
        return self._recycler.infer(request, now)

    def last_known(self, request: Request, now: float, at_least: int = 0) -> Decision | None:
        """The same for when no PDP can be reached: beyond the lease too if the rules allow it, marked
        stale."""
        standing = self._lease.standing(now, at_least)
        decision = None if standing is Standing.NONE else self._recycler.infer(request, now)
        if decision is None or decision.inferred is None or standing is Standing.FRESH:
            return decision
        return replace(decision, inferred=replace(decision.inferred, stale=True))

    def learn(self, request: Request, decision: Decision, asked_at_epoch: int, answer: str = "") -> None:
        """Learn from a verified answer to a question that was stamped with `epoch` when asked."""
        self._recycler.learn(request, decision, asked_at_epoch, answer)

    def hits(self) -> dict[tuple[str, bool, Reason], int]:
        """How many answers were given, by the method that found them, whether they allow, and why."""
        return self._recycler.hits()

    def load(self, snapshot: Snapshot) -> None:
        """Answer from this snapshot too. Raises SnapshotRefused if it is not of the current epoch."""
        self._recycler.load(snapshot)

    def hear(self, beat: Heartbeat, now: float) -> None:
        """Take note of a verified heartbeat, and see whether something is now `missing`."""
        self._lease.hear(beat, now)

    def receive(self, sequence: int, change: PolicyChange, now: float) -> Step:
        """Apply a verified change if it is the next; APPLY is the moment to acknowledge."""
        step = self._lease.receive(sequence, change.epoch, now)
        if step is Step.APPLY:
            self._recycler.apply(change)
        return step

    def restart(self, sequence: int, epoch: int, juniors: Mapping[str, Sequence[str]] | None = None) -> None:
        """Stand where the store was just read, with nothing cached and no lease before the next heartbeat."""
        self._lease.restart(sequence, epoch)
        self._recycler.restart(epoch, juniors)

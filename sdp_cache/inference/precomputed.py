"""Answers from a snapshot: what was computed for a whole population holds until a change touches the
request.

A snapshot knows entities by id only. A request that brings attributes of its own may be decided by those,
so it is not answered from here; its context does no harm, since what looks at the context was precomputed
as "ask".
"""

from __future__ import annotations

from authz import Decision, Inference, Reason, Request
from sdp_cache.snapshots import Ruling, Snapshot
from sdp_cache.validity import ChangeLog

METHOD = "snapshot"


class Precomputed:
    """The snapshot of an epoch, used for as long as the log remembers what has changed since."""

    __slots__ = ("_inferred", "_log", "_snapshot", "_until")

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self.clear()

    def load(self, snapshot: Snapshot) -> None:
        """Use this snapshot from now on. It must have been opened for the current epoch."""
        expires = snapshot.header.expires
        self._snapshot: Snapshot | None = snapshot
        self._until = float("inf") if expires is None else expires
        self._inferred = Inference(METHOD, (str(snapshot.signer),))

    def infer(self, request: Request, now: float) -> Decision | None:
        """What was precomputed for this subject, object and action, if it was and still holds."""
        snapshot = self._snapshot
        subject, object_, action = request.subject, request.object, request.action
        if (
            snapshot is None
            or not now < self._until
            or subject.attributes
            or object_.attributes
            or action.attributes
        ):
            return None
        ruling, matched = snapshot.lookup(subject.id, object_.id, action.id)
        if ruling is Ruling.ASK or self._log.touched(request, snapshot.epoch):
            return None
        return Decision(
            ruling is Ruling.ALLOW,
            Reason.POLICY if matched else Reason.NO_POLICY,
            snapshot.policies(matched),
            epoch=self._log.epoch,
            expires=snapshot.header.expires,
            inferred=self._inferred,
        )

    def learn(self, request: Request, decision: Decision, answer: str) -> None:
        """A snapshot is whole as it is."""

    def clear(self) -> None:
        self._snapshot = None
        self._until = float("-inf")
        self._inferred = Inference(METHOD)

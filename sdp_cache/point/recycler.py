"""Every way to answer without a PDP, one after the other: precise, by roles, by labels, by certificates.

Invariant: whatever `infer` returns is what a PDP would answer under the epoch the decision names, which is
the epoch this recycler stands at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Protocol

from authz import Decision, InvalidRequest, Reason, Request
from authz.change import PolicyChange
from sdp_cache.inference import PRECISE, CertificateCache, PreciseCache, Precomputed, SaamBlp, SaamRbac
from sdp_cache.point.cache_sizes import Recycling
from sdp_cache.snapshots import Snapshot
from sdp_cache.validity import ChangeLog

_LASTING = frozenset({Reason.POLICY, Reason.NO_POLICY})


class Link(Protocol):
    """One way to answer. It is taught only what was decided under the current epoch."""

    def infer(self, request: Request, now: float) -> Decision | None: ...

    def learn(self, request: Request, decision: Decision, answer: str) -> None: ...

    def clear(self) -> None: ...


class Recycler:
    """The caches of one SDP, in the order of their cost, over one log of changes."""

    __slots__ = (
        "_blp",
        "_exact",
        "_found",
        "_inexact",
        "_links",
        "_log",
        "_precise",
        "_precomputed",
        "_rbac",
    )

    def __init__(self, recycling: Recycling | None = None, epoch: int = 0) -> None:
        use = recycling or Recycling()
        self._log = log = ChangeLog(epoch)
        self._precomputed = Precomputed(log)
        self._rbac = SaamRbac(log, size=use.saam_rbac)
        self._blp = SaamBlp(log, size=use.saam_blp)
        self._precise = precise = PreciseCache(log, use.precise)
        self._found = Counter[tuple[str, bool, Reason]]()
        """What the slower ways have found; the fast one counts for itself."""
        self._exact: tuple[Link, ...] = (precise,) if use.precise else ()
        ways: tuple[tuple[int, Link], ...] = (
            (use.precise, precise),
            (1, self._precomputed),
            (use.saam_rbac, self._rbac),
            (use.saam_blp, self._blp),
            (use.certificates, CertificateCache(log, use.certificates)),
        )
        self._links: tuple[Link, ...] = tuple(link for size, link in ways if size)
        self._inexact = self._links[len(self._exact) :]

    @property
    def epoch(self) -> int:
        return self._log.epoch

    def infer(self, request: Request, now: float) -> Decision | None:
        """The answer, if one of the caches has it or can infer it. Raises InvalidRequest, as asking would."""
        try:
            if self._exact:
                decision = self._precise.infer(request, now)
                if decision is not None:
                    return decision
        except (AttributeError, TypeError, ValueError, OverflowError, RecursionError) as error:
            request.validate()
            raise InvalidRequest("request", f"must hold JSON values only: {error}") from None
        # The others look at parts only, and must not take `/docs/../hr` for something below `/docs/`.
        request.validate()
        if not _is_json(request):
            return None
        for link in self._inexact:
            decision = link.infer(request, now)
            if decision is not None:
                inferred = decision.inferred
                method = "" if inferred is None else inferred.method
                self._found[method, decision.allowed, decision.reason] += 1
                return decision
        return None

    def hits(self) -> dict[tuple[str, bool, Reason], int]:
        """How many answers were given, by the method that found them, whether they allow, and why."""
        precise = {(PRECISE, *outcome): count for outcome, count in self._precise.hits().items()}
        return precise | dict(list(self._found.items()))

    def learn(self, request: Request, decision: Decision, asked_at_epoch: int, answer: str = "") -> None:
        """Learn from what a PDP answered, `answer` being a reference to the signed original.

        Question and answer must both belong to the current epoch: an answer that was under way while a change
        came may speak of the past, whatever it says of itself.
        """
        if not asked_at_epoch == decision.epoch == self._log.epoch or decision.inferred is not None:
            return
        for link in self._links_for(decision) if _is_json(request) else self._exact:
            link.learn(request, decision, answer)

    def _links_for(self, decision: Decision) -> tuple[Link, ...]:
        """Those that may learn from a decision: from a failure, none unless the PDP says how long it lasts.

        A failure follows from no facts, and obligations may differ where the effect does not; so neither is
        recycled for any request but the same.
        """
        if decision.reason in _LASTING:
            return self._exact if decision.obligations else self._links
        return self._exact if decision.decided and decision.expires is not None else ()

    def load(self, snapshot: Snapshot) -> None:
        """Answer from this snapshot too. Raises SnapshotRefused if it is not of the current epoch."""
        snapshot.require_epoch(self._log.epoch)
        self._precomputed.load(snapshot)

    def apply(self, change: PolicyChange) -> None:
        """Take the step to another epoch: what the change may alter is answered from here no longer."""
        if not self._log.apply(change):
            self.restart(change.epoch, change.juniors)
        elif change.juniors is not None:
            self._rbac.rearrange(change.juniors)
        self._blp.apply(change)

    def restart(self, epoch: int, juniors: Mapping[str, Sequence[str]] | None = None) -> None:
        """Stand at this epoch with nothing cached. Without a role hierarchy, none is assumed: that is safe."""
        self._log.restart(epoch)
        for link in self._links:
            link.clear()
        self._rbac.rearrange(juniors or {})


_SCALARS = frozenset({str, int, float, bool, NoneType})


def _is_json(request: Request) -> bool:
    """Whether the PDP saw the very values that are here: an enumeration's member, say, becomes a string on its way."""
    subject, object_, action = request.subject, request.object, request.action
    try:
        return all(
            _is_json_value(value)
            for attributes in (subject.attributes, object_.attributes, action.attributes, request.context)
            for value in attributes.values()
        )
    except (AttributeError, RecursionError):  # no dictionary, or one without an end
        return False


def _is_json_value(value: object) -> bool:
    if type(value) in _SCALARS:
        return True
    if isinstance(value, list | tuple):
        return all(map(_is_json_value, value))
    return type(value) is dict and all(map(_is_json_value, value.values()))

"""SAAM-BLP: from read and append answers to a dominance graph, and from the graph to further answers.

After Crampton, Leung and Beznosov, "The Secondary and Approximate Authorization Model and its Application
to Bell-LaPadula Policies" (SACMAT 2006). Labels are not known here: subjects and objects stand for their
own. Invariant: every pair in the graph was taught by an answer that followed from labels alone, under the one
label policy still in force, and neither end has been relabelled since.

An answer that may have come from anything but labels teaches nothing, and nothing is inferred about a
permission before a PDP has said (`Basis.LABELS`) what labels mean for it: that they forbid, or that they
alone decide. That there is one such policy, and that the action is what it is called, are part of what the
PDP says; another policy, or another meaning of actions, is a change of the whole, which clears all this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from authz import Basis, Decision, Inference, Reason, Request
from authz.change import PolicyChange, Relabelled, RelabelledBelow
from sdp_cache.inference.clock_cache import ClockCache
from sdp_cache.inference.dominance import Dominance
from sdp_cache.validity import ChangeLog

METHOD = "saam-blp"

Node: TypeAlias = tuple[str, str]
"""("subject", id) or ("object", id)."""


@dataclass(frozen=True, slots=True)
class Access:
    """What an action does to its object, in the eyes of Bell and LaPadula."""

    observes: bool
    alters: bool


ACTIONS: Mapping[str, Access] = {
    "read": Access(observes=True, alters=False),
    "append": Access(observes=False, alters=True),
    "write": Access(observes=True, alters=True),
}


PAIRS_EACH = 16
"""How many pairs are kept for each subject or object there is room for."""

_RELABELLED = (Relabelled, RelabelledBelow)


class _Mark:
    """The last epochs under which labels were said to forbid, and alone to decide, about one permission."""

    __slots__ = ("decide", "forbid", "used")

    def __init__(self) -> None:
        self.forbid = self.decide = -1
        self.used = False


class SaamBlp:
    """What follows from answers by labels.

    With more than `size` subjects and objects, or PAIRS_EACH times as many pairs, it starts anew.
    """

    __slots__ = ("_graph", "_log", "_marks", "_size", "contradictions")

    def __init__(self, log: ChangeLog, size: int = 4096) -> None:
        self._log = log
        self._size = size
        self._graph: Dominance[Node] = Dominance()
        self._marks: ClockCache[tuple[str, str], _Mark] = ClockCache(PAIRS_EACH * size)
        self.contradictions = 0
        """How often answers contradicted each other: some PDP claims `Basis.LABELS` wrongly."""

    def __len__(self) -> int:
        return len(self._graph)

    @property
    def pairs(self) -> int:
        """How many pairs it has learned."""
        return self._graph.size

    def infer(self, request: Request, now: float) -> Decision | None:
        """What follows from the graph for this subject and object."""
        mark = self._marks[request.object.id, request.action.id]
        pairs = list(self._pairs(request))
        if mark is None or not pairs:
            return None
        verdicts = [self._graph.dominates(x, y) for x, y in pairs]
        allowed = all(verdicts)
        if not allowed and False not in verdicts:
            return None
        if self._log.touched(request, mark.decide if allowed else mark.forbid, besides=_RELABELLED):
            return None
        mark.used = True
        reasons = pairs if allowed else [pairs[verdicts.index(False)]]
        answers = dict.fromkeys(answer for x, y in reasons for answer in self._graph.why(x, y))
        inferred = Inference(METHOD, tuple(answers))
        return Decision(allowed, Reason.POLICY, epoch=self._log.epoch, inferred=inferred)

    def learn(self, request: Request, decision: Decision, answer: str) -> None:
        """Learn from an answer given under the current epoch that followed from labels alone."""
        if decision.basis is not Basis.LABELS or decision.expires is not None:
            return
        pairs = list(self._pairs(request))
        if not pairs:
            return
        if len(self._graph) + 2 > self._size or self.pairs + 2 > PAIRS_EACH * self._size:
            self.clear()
        self._confirm(request, decision.allowed)
        if not decision.allowed:  # of two questions, the one that is not known to be a yes was the no
            pairs = [pair for pair in pairs if not self._graph.dominates(*pair)]
            if len(pairs) > 1:
                return
        if not pairs or not all(self._graph.learn(x, y, decision.allowed, answer) for x, y in pairs):
            self.contradictions += 1
            self.clear()

    def apply(self, change: PolicyChange) -> None:
        """Forget what was learned of those who have other labels now."""
        nodes = {(each.kind, each.id) for each in change.effects if isinstance(each, Relabelled)}
        below = [each for each in change.effects if isinstance(each, RelabelledBelow)]
        if nodes or below:
            self._graph = self._graph.without(
                lambda node: (
                    node in nodes
                    or any(node[0] == each.kind and node[1].startswith(each.prefix) for each in below)
                )
            )

    def clear(self) -> None:
        self._graph = Dominance()
        self._marks.clear()

    def _confirm(self, request: Request, alone: bool) -> None:
        permission = (request.object.id, request.action.id)
        mark = self._marks[permission]
        if mark is None:
            mark = self._marks[permission] = _Mark()
        mark.forbid = self._log.epoch
        if alone:
            mark.decide = self._log.epoch

    def _pairs(self, request: Request) -> Iterator[tuple[Node, Node]]:
        """Who must dominate whom."""
        access = ACTIONS.get(request.action.id)
        subject, object_ = ("subject", request.subject.id), ("object", request.object.id)
        if access is not None and access.observes:
            yield subject, object_
        if access is not None and access.alters:
            yield object_, subject

"""The policy changes of late: each cached answer is judged by them when it is used, not when they come.

Applying a change therefore costs nothing, however much is cached, and the answers it touches are dead from
that very moment. Invariant: for a request and an epoch, `touched` says False only if every change since
that epoch is known here and the request lies in the `where` of none of its effects; what was true of it
then is true of it now.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from authz import Request
from authz.change import Effect, PolicyChange
from authz.errors import InvalidPredicate
from authz.predicate import And, Equal, Path, Predicate, compile_predicate

Pin: TypeAlias = tuple[str, str] | None
"""The one subject or object an effect is about: ("subject", id) or ("object", id)."""


class _Entry(NamedTuple):
    epoch: int
    effect: Effect
    pin: Pin
    holds: Callable[[Request], bool]


class ChangeLog:
    """Where the policies stand, and the last effects, at most `limit`, of the changes that led there."""

    __slots__ = ("_entries", "_limit", "_pinned", "epoch", "floor")

    def __init__(self, epoch: int = 0, limit: int = 1024) -> None:
        self._limit = limit
        self.restart(epoch)

    def restart(self, epoch: int) -> None:
        """Stand at this epoch, knowing nothing of how it differs from any other."""
        self.epoch = self.floor = epoch
        self._entries: deque[_Entry] = deque()
        self._pinned: defaultdict[Pin, deque[_Entry]] = defaultdict(deque)

    def apply(self, change: PolicyChange) -> bool:
        """Take the step. False if that means to restart: it starts elsewhere, or may alter anything."""
        leads_on = change.previous == self.epoch < change.epoch
        entries = None if change.whole or not leads_on else _entries(change)
        if entries is None or len(entries) > self._limit:
            self.restart(change.epoch)
            return False
        for entry in entries:
            self._entries.append(entry)
            self._pinned[entry.pin].append(entry)
        self.epoch = change.epoch
        while len(self._entries) > self._limit:
            self._forget_oldest()
        return True

    def touched(self, request: Request, since: int, besides: tuple[type[Effect], ...] = ()) -> bool:
        """Whether an effect since then, other than of the kinds `besides`, may be about the request."""
        if since >= self.epoch:
            return False
        if since < self.floor:
            return True
        pins: tuple[Pin, ...] = (("subject", request.subject.id), ("object", request.object.id), None)
        return any(
            entry.epoch > since and not isinstance(entry.effect, besides) and entry.holds(request)
            for entries in map(self._pinned.get, pins)
            if entries
            for entry in entries
        )

    def since(self, epoch: int) -> Iterator[tuple[Effect, Pin]]:
        """The effects after this epoch, which must not lie below the floor, oldest first."""
        return ((entry.effect, entry.pin) for entry in self._entries if entry.epoch > epoch)

    def _forget_oldest(self) -> None:
        oldest = self._entries.popleft()
        siblings = self._pinned[oldest.pin]
        siblings.popleft()
        if not siblings:
            del self._pinned[oldest.pin]
        self.floor = oldest.epoch


def _entries(change: PolicyChange) -> list[_Entry] | None:
    """The effects, ready to be tested; None if one of them cannot be."""
    try:
        return [
            _Entry(change.epoch, effect, pin(effect.where), compile_predicate(effect.where))
            for effect in change.effects
        ]
    except InvalidPredicate:
        return None


def pin(where: Predicate) -> Pin:
    """The subject, else the object, outside which the predicate is false by its very form."""
    terms = where.terms if isinstance(where, And) else (where,)
    for root in ("subject", "object"):
        for term in terms:
            if isinstance(term, Equal) and term.path == Path(root) and not term.fold:
                return (root, str(term.value))
    return None

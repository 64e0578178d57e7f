"""The switchboard: for each event, which subscriptions here and which brokers elsewhere it is for.

Invariant: an event reaches every subscription whose filter and restriction let it through, and every broker one of
whose announced filters does. What is announced to other brokers covers all subscriptions here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from authz.predicate import And, Or, Predicate, Regex, comparisons, conjuncts
from authz.predicate.filter import parse_filter
from pubsub_core.coverage import covering
from pubsub_core.enforcement import Enforcement
from pubsub_core.event import Event
from pubsub_core.matching import Matcher
from pubsub_core.messages import Tense
from pubsub_core.restriction import widened
from pubsub_core.rules.condition import fixed

T = TypeVar("T", "Subscription", str)
_type = attrgetter("type")


class Later(Protocol):
    """Where events wait."""

    def put(self, item: Any) -> None: ...


@dataclass(slots=True, eq=False)
class Subscription:
    """What a client asked for, as it asked for it, and what of it is granted now."""

    session: str
    number: int
    type: str
    """The type's UUID."""
    filter: str
    """As the client wrote it."""
    granted: Mapping[str, Enforcement] = field(default_factory=dict)
    """By type: the one asked for and its sub-types, as far as granted."""
    start: float | None = None
    """From when on past events are wanted too."""
    later: Later | None = None
    """Where its events wait while past ones come first."""
    tense: Tense = Tense.PRESENT
    """Whether it is past events that are asked for."""

    @property
    def fixed(self) -> dict[str, object]:
        """The attributes that its filter gives a value, by name."""
        return fixed(parse_filter(self.filter))


class Switchboard:
    """Subscriptions of clients, and the wants of other brokers."""

    def __init__(self, start: int = 0) -> None:
        """`start` is where to begin to count changes: higher than any earlier count that others may remember."""
        self._local: dict[str, Matcher[Subscription]] = {}
        self._remote: dict[str, Matcher[str]] = {}
        self._wants: dict[str, tuple[Predicate, ...]] = {}
        self._stale: set[str] = set()
        self._observed: dict[str, Mapping[str, tuple[Predicate, ...]]] = {}
        self._heard: dict[str, set[str]] = {}
        self.on_connect: Callable[[Subscription], None] = lambda subscription: None
        """Is told of every change to a subscription."""
        self.version = start
        """Counts the changes to what is wanted here."""

    def connect(
        self, subscription: Subscription, granted: Mapping[str, tuple[Enforcement, Predicate]]
    ) -> None:
        """Put a subscription through as granted: for each type by its restriction and its client's filter."""
        for type_ in subscription.granted.keys() - granted.keys():
            self._local[type_].remove(subscription)
            self._stale.add(type_)
        for type_, (enforcement, asked) in granted.items():
            terms = tuple(conjuncts(And((asked, enforcement.restriction.pushed))))
            effective = terms[0] if len(terms) == 1 else And(terms)
            self._local.setdefault(type_, Matcher()).add(subscription, effective)
            self._stale.add(type_)
        subscription.granted = {type_: enforcement for type_, (enforcement, _) in granted.items()}
        self.on_connect(subscription)

    def disconnect(self, subscription: Subscription) -> None:
        self.connect(subscription, {})

    def local(self, events: Iterable[Event]) -> Iterator[Sequence[Subscription]]:
        """The subscriptions here that each event is for."""
        return _found(self._local, events)

    def remote(self, events: Iterable[Event]) -> Iterator[Sequence[str]]:
        """The brokers elsewhere that want each event."""
        return _found(self._remote, events)

    def hear(self, broker: str, wants: Mapping[str, tuple[Predicate, ...]]) -> None:
        """A broker wants this from now on, and nothing else."""
        for type_, matcher in self._remote.items():
            if type_ not in wants:
                matcher.remove(broker)
        for type_, filters in wants.items():
            wanted = filters[0] if len(filters) == 1 else Or(filters)
            self._remote.setdefault(type_, Matcher()).add(broker, wanted)

    def observe(self, who: str, shared: Mapping[str, tuple[Predicate, ...]], heard: set[str]) -> None:
        """A part of the broker wants these events of other brokers, and to hear of those types at all."""
        self._stale |= self._observed.get(who, {}).keys() | shared.keys()
        self._observed[who] = {type_: tuple(map(widened, parts)) for type_, parts in shared.items()}
        self._heard[who] = heard

    def wants(self) -> Mapping[str, tuple[Predicate, ...]]:
        """What the clients here want, and the broker itself, as few filters as cover it all."""
        for type_ in self._stale:
            local = self._local[type_].filters() if type_ in self._local else []
            observed = [part for each in self._observed.values() for part in each.get(type_, ())]
            before, now = self._wants.pop(type_, ()), covering([*map(_travelling, local), *observed])
            if now:
                self._wants[type_] = now
            self.version += now != before
        self._stale.clear()
        return self._wants

    def wanted(self, type_: str) -> bool:
        """Whether anybody anywhere wants events of this type."""
        boards = (self._local, self._remote)
        heard = any(type_ in each for each in self._heard.values())
        return heard or any(len(board[type_]) for board in boards if type_ in board)


def _found(boards: Mapping[str, Matcher[T]], events: Iterable[Event]) -> Iterator[Sequence[T]]:
    """Whom each event is for, by the board of its type: looked up once for many of one type."""
    for type_, alike in groupby(events, _type):
        matcher, values = boards.get(type_), [event.attributes for event in alike]
        yield from matcher.match_each(values) if matcher is not None else repeat((), len(values))


def _travelling(predicate: Predicate) -> Predicate:
    """The filter as other brokers are told: regular expressions stay here, for they need not be theirs to bear."""
    return widened(predicate) if _has_regex(predicate) else predicate


def _has_regex(predicate: Predicate) -> bool:
    return any(isinstance(test, Regex) for test in comparisons(predicate))

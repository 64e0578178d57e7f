"""The subscriptions: for each event, which subscriptions here it is for; and which types are wanted here and elsewhere.

Invariant: an event reaches every subscription whose filter and restriction let it through. What is said to be wanted
here covers all subscriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

from authz.predicate import And, Predicate, conjuncts
from authz.predicate.filter import parse_filter
from authz.predicate.matching import Matcher
from pubsub_core.access import Enforcement
from pubsub_core.delivery.cursor import Cursor
from pubsub_core.events import Event
from pubsub_core.messages import Tense
from pubsub_core.rules import fixed

MAX_VALUES = 256
"""Maximum routing values selected of one type; beyond, all of the type is read."""
Values: TypeAlias = Callable[[str, Predicate], frozenset[object] | None]
"""The values of a type's routing attribute that a predicate asks for; None if it may be any."""

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
    cursor: Cursor | None = None
    """Where it stands in the stream, if it outlasts its broker: then that is where all its events come from."""
    predicate: Predicate = field(init=False)
    """Its filter, by names: read once, since it is asked about anew with every release of policies."""
    fixed: Mapping[str, object] = field(init=False)
    """The attributes that its filter gives a value, by name."""

    def __post_init__(self) -> None:
        self.predicate = parse_filter(self.filter)
        self.fixed = fixed(self.predicate)


class SubscriptionTable:
    """Subscriptions of clients, and what other brokers want."""

    def __init__(self, values_of: Values, start: int = 0) -> None:
        """`start` is where to begin to count changes: higher than any earlier count that others may remember."""
        self._values_of = values_of
        self._asked: dict[str, dict[Subscription, frozenset[object] | None]] = {}
        """For each type, the routing values that each subscription asks for."""
        self._routes: dict[str, frozenset[object] | None] = {}
        self._local: dict[str, Matcher[Subscription]] = {}
        self._remote: dict[str, frozenset[str]] = {}
        """What each other broker wants."""
        self._observed: dict[str, frozenset[str]] = {}
        self._heard: dict[str, set[str]] = {}
        self.on_connect: list[Callable[[Subscription], None]] = []
        """Called at every change to a subscription."""
        self.version = start
        """Counts the changes to what is wanted here."""

    def connect(
        self, subscription: Subscription, granted: Mapping[str, tuple[Enforcement, Predicate]]
    ) -> None:
        """Put a subscription through as granted: for each type by its restriction and its client's filter."""
        for type_ in subscription.granted.keys() - granted.keys():
            self._local[type_].remove(subscription)
            self._asked[type_].pop(subscription, None)
        for type_, (enforcement, asked) in granted.items():
            terms = tuple(conjuncts(And((asked, enforcement.restriction.pushed))))
            effective = terms[0] if len(terms) == 1 else And(terms)
            self._local.setdefault(type_, Matcher()).add(subscription, effective)
            self._asked.setdefault(type_, {})[subscription] = self._values_of(type_, effective)
        subscription.granted = {type_: enforcement for type_, (enforcement, _) in granted.items()}
        for tell in self.on_connect:
            tell(subscription)

    def disconnect(self, subscription: Subscription) -> None:
        self.connect(subscription, {})

    def local(self, events: Iterable[Event]) -> Iterator[Sequence[Subscription]]:
        """The subscriptions here that each event is for."""
        return _found(self._local, events)

    def hear(self, broker: str, wants: frozenset[str]) -> frozenset[str]:
        """A broker wants events of these types from now on, and of no others; says which types that is news of."""
        before = self._remote.pop(broker, frozenset())
        if wants:
            self._remote[broker] = wants
        return before ^ wants

    def observe(self, who: str, shared: Collection[str], heard: set[str]) -> None:
        """A part of the broker wants events of some types of other brokers, and to hear of those types at all."""
        self._observed[who] = frozenset(shared)
        self._heard[who] = heard

    def wants(self) -> Collection[str]:
        """The types, by UUID, that clients here want, and the broker itself."""
        return self.routes().keys()

    def routes(self) -> Mapping[str, frozenset[object] | None]:
        """The types that are wanted here, each with the routing values that are enough; None for all."""
        routes: dict[str, frozenset[object] | None] = {}
        for type_, matcher in self._local.items():
            if len(matcher):
                routes[type_] = _union(self._asked.get(type_, {}).values())
        routes.update(dict.fromkeys(frozenset[str]().union(*self._observed.values()), None))
        if routes != self._routes:
            self._routes = routes
            self.version += 1
        return self._routes

    def wanted(self, type_: str) -> bool:
        """Whether anybody anywhere wants events of this type."""
        heard = any(type_ in each for each in self._heard.values())
        return heard or self.wanted_here(type_) or self.wanted_elsewhere(type_)

    def wanted_here(self, type_: str) -> bool:
        """Whether clients of this broker want events of this type."""
        return type_ in self._local and len(self._local[type_]) > 0

    def wanted_elsewhere(self, type_: str) -> bool:
        """Whether the clients of another broker want events of this type."""
        return any(type_ in wants for wants in self._remote.values())


def _union(asked: Iterable[frozenset[object] | None]) -> frozenset[object] | None:
    """The values that all ask for together; None if somebody asks for any, or they are too many to be selected."""
    found = set[object]()
    for values in asked:
        if values is None:
            return None
        found |= values
        if len(found) > MAX_VALUES:
            return None
    return frozenset(found)


def _found(
    boards: Mapping[str, Matcher[Subscription]], events: Iterable[Event]
) -> Iterator[Sequence[Subscription]]:
    """Whom each event is for, by the board of its type: looked up once for many of one type."""
    for type_, alike in groupby(events, _type):
        matcher, values = boards.get(type_), [event.attributes for event in alike]
        yield from matcher.match_each(values) if matcher is not None else repeat((), len(values))

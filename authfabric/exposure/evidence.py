"""What exposure is found from: who had credentials, which policies were in force when, and who held keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pdp.bundle import Bundle
from pubsub_core.history import Span, common
from pubsub_core.rules import Mark
from pubsub_core.trust import Credential
from pubsub_core.types import Catalogue

ALWAYS = Span()


@dataclass(frozen=True, slots=True)
class Client:
    """Somebody with a credential, for as long as it is known to have had it."""

    credential: Credential
    span: Span = ALWAYS
    brokers: tuple[str, ...] = ()
    """Where it may connect; any if that is not known."""


@dataclass(frozen=True, slots=True)
class Period:
    """Policies, and when they were in force."""

    span: Span
    bundle: Bundle
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Keys:
    """When brokers could have the keys of the sealed attributes of a type."""

    sealed: frozenset[str] = frozenset()
    """By UUID."""
    held: Mapping[str, Mapping[str, Sequence[Span]]] = field(default_factory=dict)
    """By the broker's name and the attribute's UUID. Of a broker that is not there nothing is known."""

    def readable(
        self, broker: str, attribute: str, every: frozenset[str]
    ) -> list[tuple[Span, frozenset[str] | None]]:
        """Times, and what the broker could open then of all attributes; None for all, also if nothing is known."""
        held = self.held.get(broker)
        if held is None or not self.sealed:
            return [(ALWAYS, None)]
        edges = {at for each in held.values() for span in each for at in (span.start, span.end)}
        bounds = sorted({*edges, ALWAYS.start, ALWAYS.end})
        found = []
        for start, end in pairwise(bounds):
            lacking = {id_ for id_ in self.sealed if not common([Span(start, end)], held.get(id_, ()))}
            if attribute not in lacking:
                found.append((Span(start, end), every - lacking if lacking else None))
        return found


@dataclass(frozen=True, slots=True)
class Question:
    """Who could have read an attribute of the events of a type that were published within some time."""

    type: str
    """Its UUID."""
    attribute: str
    """Its UUID."""
    within: Span = ALWAYS
    until: float = float("inf")
    """Until when they could have been replayed."""
    broker: str = ""
    """Whose history it is: what is kept there can be replayed there without the keys by which it was carried."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of then."""

    catalogue: Catalogue
    clients: Sequence[Client]
    periods: Sequence[Period]
    """In order of time, without overlap."""
    keys: Keys = field(default_factory=Keys)
    marks: Sequence[Mark] = ()
    """When fluents began and ended."""

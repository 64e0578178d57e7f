"""What somebody could see of an event: by a right that it had for a while, at a broker that could open what it could.

Everything is judged by what brokers themselves judge with. Where that asks something that nobody can tell any more,
such as a function that a broker was given, the answer is that it is not known.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from msgspec import structs

from authz.predicate import TRUE, Predicate, compile_predicate, paths
from authz.predicate.compiler import EVENT
from pubsub_core.access import Enforcement
from pubsub_core.errors import EventError
from pubsub_core.events import Event
from pubsub_core.history import Span
from pubsub_core.rules import Unknowable

Values: TypeAlias = tuple[object, ...]


class Form(enum.IntEnum):
    """In which form a value could be seen. The greater, the more of it."""

    HIDDEN = 0
    UNKNOWN = 1
    """Not at all, unless something was so that is not known any more."""
    ALTERED = 2
    """As a rule has made it: blurred, under a pseudonym, or as part of something else."""
    FULL = 3


@dataclass(slots=True, eq=False)
class Narrowed:
    """What is granted to whoever asks for events with certain values alone, by those values."""

    attributes: tuple[str, ...]
    """By UUID: those of which policies ask whether they were named."""
    names: tuple[str, ...]
    known: dict[Values, Enforcement | None] = field(default_factory=dict)

    def values(self, event: Event) -> Values:
        found = map(event.attributes.get, self.attributes)
        return tuple(each if isinstance(each, str | int | float | bool) else None for each in found)

    def fixed(self, values: Values) -> Mapping[str, object]:
        return {name: value for name, value in zip(self.names, values, strict=True) if value is not None}


@dataclass(frozen=True, slots=True, eq=False)
class PossibleAccess:
    """A right to events of a type, for as long as policies, credential and keys were there together."""

    span: Span
    past: bool
    """Whether it is to events of the past, rather than to those that are published meanwhile."""
    enforcement: Enforcement | None
    """What binds whoever asks for all of the type; None if nobody may."""
    readable: frozenset[str] | None = None
    """The attributes, by UUID, that the broker could open; None for all."""
    moments: Sequence[float] = ()
    """When something changed that its rules ask about, in order."""
    narrowed: Narrowed | None = None
    _holds: Callable[[Mapping[str, object]], bool] | None = field(init=False)

    def __post_init__(self) -> None:
        found = self.plain
        object.__setattr__(self, "_holds", None if found is None else _compiled(found))

    @property
    def plain(self) -> Predicate | None:
        """The filter that alone decides whether an event is seen, and seen as it is; None if there is more to it."""
        if self.enforcement is None or self.narrowed is not None:
            return None
        bound = self.enforcement.restriction
        if self.enforcement.judges or bound.checks or bound.options or bound.foreign:
            return None
        spoken_of = {str(path.keys[0]) for path in paths(bound.filter)} if bound.filter != TRUE else set()
        return bound.filter if self.readable is None or spoken_of <= self.readable else None

    def concerns(self, at: float) -> bool:
        """Whether it is a access to see what was published then."""
        return at < self.span.end and (self.past or self.span.start <= at)

    def form(self, event: Event, size: int, attribute: str) -> Form:
        """In which form the attribute of an event, which has a value, could be seen."""
        if not self.concerns(event.time):
            return Form.HIDDEN
        if self._holds is not None:
            return Form.FULL if self._holds(event.attributes) else Form.HIDDEN
        return max(self._forms(event.narrowed(self.readable), size, attribute), default=Form.HIDDEN)

    def _forms(self, event: Event, size: int, attribute: str) -> Iterator[Form]:
        for enforcement in self._enforcements(event):
            for at in self._looks(event.time):
                found = _form(enforcement, event, size, attribute, at, self.past)
                yield found
                if found is Form.FULL:
                    return

    def _enforcements(self, event: Event) -> Iterator[Enforcement]:
        if self.enforcement is not None:
            yield self.enforcement
        if self.narrowed is not None:
            found = self.narrowed.known[self.narrowed.values(event)]
            if found is not None:
                yield found

    def _looks(self, published: float) -> Iterator[float]:
        """The moments at which what is shown of an event may have become something else."""
        if not self.past:
            yield published
            return
        first = max(published, self.span.start)
        yield first
        yield from (at for at in self.moments if first < at < self.span.end)


@lru_cache(maxsize=1024)
def _compiled(predicate: Predicate) -> Callable[[Mapping[str, object]], bool]:
    return compile_predicate(predicate, EVENT)


def _form(enforcement: Enforcement, event: Event, size: int, attribute: str, at: float, past: bool) -> Form:
    value = event.attributes.get(attribute)
    if value is None or not _compiled(enforcement.restriction.filter)(event.attributes):
        return Form.HIDDEN
    shown = enforcement.show(event, size, at, past=past)
    if shown is None:
        return Form.UNKNOWN if _is_unknown(enforcement, event, at, past) else Form.HIDDEN
    if any(each.type == event.type and each.attributes.get(attribute) == value for each in shown.events):
        return Form.FULL
    if not any(judge.changes for judge in enforcement.judges):
        return Form.HIDDEN
    without = structs.replace(
        event, attributes={id_: each for id_, each in event.attributes.items() if id_ != attribute}
    )
    other = enforcement.show(without, size, at, past=past)
    if other is None or len(other.events) != len(shown.events):
        return Form.ALTERED  # that it comes at all tells something of the value
    differ = [
        found
        for one, two in zip(shown.events, other.events, strict=True)
        for id_, found in one.attributes.items()
        if found is not None and found != two.attributes.get(id_)
    ]
    return Form.HIDDEN if not differ else Form.FULL if value in differ else Form.ALTERED


def _is_unknown(enforcement: Enforcement, event: Event, at: float, past: bool) -> bool:
    """Whether nothing is shown for the sole reason that something cannot be told any more."""
    for judge in enforcement.judges:
        try:
            judge.apply(event, at, enforcement.restriction.visible, past)
        except Unknowable:
            return True
        except EventError:  # what cannot be made of an event is not shown
            return False
    return False

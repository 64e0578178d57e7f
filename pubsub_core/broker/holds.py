"""Holds: what is not delivered while policies change. Everything, or the types that the change may touch.

Invariants: an event of a type that is held is not delivered; neither is one that its publisher published after such an
event, so that each publisher's events stay in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import msgspec

from pubsub_core.broker.delivery_states import TABLE, Occurrence, State, Then
from pubsub_core.events import Event

Read: TypeAlias = tuple[msgspec.Raw, Event]
MAX_PARKED = 16_384
"""Maximum events that wait for their type's definition; beyond, reading of the stream pauses."""


class Holds:
    """Counts who holds what; each hold is released once."""

    def __init__(self) -> None:
        self._everything = 0
        self._types: Counter[str] = Counter()
        self._parked: list[Read] = []
        self._publishers: set[bytes] = set()
        """Whose events are parked."""

    @property
    def everything(self) -> bool:
        return self._everything > 0

    @property
    def state(self) -> State:
        """How much is delivered now."""
        if self._everything > 0:
            return State.ALL_HELD
        return State.SOME_HELD if self._types else State.OPEN

    def permits(self, occurrence: Occurrence, types: Iterable[str] = ()) -> bool:
        """Whether something that concerns these types is dealt with now; otherwise later."""
        then = TABLE[occurrence][self.state]
        return then is Then.NOW or (then is Then.UNLESS_TOUCHED and self._types.keys().isdisjoint(types))

    @property
    def types(self) -> Collection[str]:
        """The types, by UUID, that are held even if not everything is."""
        return self._types.keys()

    @property
    def full(self) -> bool:
        """Whether nothing more can be parked, and should not come."""
        return len(self._parked) >= MAX_PARKED

    def holds(self, types: Iterable[str]) -> bool:
        """Whether one of these types is held."""
        return self.everything or not self._types.keys().isdisjoint(types)

    def hold(self, types: Collection[str] | None = None) -> None:
        """Hold these types; None for everything."""
        if types is None:
            self._everything += 1
        else:
            self._types.update(set(types))

    def release(self, types: Collection[str] | None = None) -> None:
        if types is None:
            self._everything -= 1
        else:
            self._types.subtract(set(types))
            self._types = +self._types

    def park(self, events: Sequence[Read]) -> Sequence[Read]:
        """Keep what must wait, and give back the rest."""
        if not self._types:
            return events
        passing: list[Read] = []
        for each in events:
            event = each[1]
            if event.type in self._types or event.publisher in self._publishers:
                self._publishers.add(event.publisher)
                self._parked.append(each)
            else:
                passing.append(each)
        return passing

    def unpark(self) -> Sequence[Read]:
        """Everything that was parked, in the order in which it came."""
        parked, self._parked = self._parked, []
        self._publishers.clear()
        return parked

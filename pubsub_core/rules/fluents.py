"""Fluents: states of affairs that events begin and end, such as a prescriber being under investigation.

A fluent holds during half-open intervals of time, from the moment of an event that initiates it until the moment of one
that terminates it (Kowalski and Sergot, A logic-based calculus of events, 1986). Invariant: what is known depends on
which events were heard, not on the order in which they came, so brokers that hear the same events agree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from msgspec.msgpack import encode

from authz.predicate import Scalar

KEPT_SECONDS = 7 * 86_400.0
"""Minimum seconds of the past for which it is known when fluents held."""

Arguments: TypeAlias = tuple[Scalar, ...]


class Fluent(NamedTuple):
    """A named state, of the things it is about: `underInvestigation("nurse_8821")`."""

    name: str
    arguments: Arguments = ()


class Interval(NamedTuple):
    """From `start` up to but not including `end`."""

    start: float
    end: float = inf

    def __contains__(self, at: object) -> bool:
        return isinstance(at, int | float) and self.start <= at < self.end


@dataclass(slots=True)
class Timeline:
    """When one fluent began and ended to hold, as far back as is remembered."""

    times: list[float] = field(default_factory=list)
    begins: dict[float, bool] = field(default_factory=dict)

    def note(self, at: float, begins: bool) -> None:
        """At one moment an end counts, whatever else begins then: the interval between would be empty."""
        if at not in self.begins:
            insort(self.times, at)
        self.begins[at] = begins and self.begins.get(at, True)

    def holds_at(self, at: float) -> bool:
        position = bisect_right(self.times, at)
        return position > 0 and self.begins[self.times[position - 1]]

    def intervals(self) -> Iterator[Interval]:
        start: float | None = None
        for at in self.times:
            if start is None and self.begins[at]:
                start = at
            elif start is not None and not self.begins[at]:
                yield Interval(start, at)
                start = None
        if start is not None:
            yield Interval(start)

    def forget(self, before: float) -> bool:
        """Drop what no question about `before` or later needs; true if nothing is left."""
        old = bisect_left(self.times, before)
        if old and self.begins[self.times[old - 1]]:
            old -= 1  # it may still hold; that something does not goes without saying
        for at in self.times[:old]:
            del self.begins[at]
        del self.times[:old]
        return not self.times


class Fluents:
    """What is known of every fluent. Pure: events' times go in, never a clock."""

    def __init__(self) -> None:
        self._timelines: dict[str, dict[Arguments, Timeline]] = {}
        self._since = -inf

    @property
    def since(self) -> float:
        """Of earlier times nothing is known."""
        return self._since

    def initiate(self, fluent: Fluent, at: float) -> None:
        self._note(fluent, at, begins=True)

    def terminate(self, fluent: Fluent, at: float) -> None:
        self._note(fluent, at, begins=False)

    def holds_at(self, fluent: Fluent, at: float) -> bool:
        """Whether it held at that time; false for times that were forgotten."""
        timeline = self._find(fluent)
        return timeline is not None and at >= self._since and timeline.holds_at(at)

    def during(self, fluent: Fluent) -> tuple[Interval, ...]:
        """When it held, the latest possibly without an end."""
        timeline = self._find(fluent)
        found = timeline.intervals() if timeline is not None else ()
        return tuple(Interval(max(start, self._since), end) for start, end in found if end > self._since)

    def not_during(self, fluent: Fluent) -> tuple[Interval, ...]:
        """When it is known not to have held: what was forgotten is neither."""
        gaps, start = [], self._since
        for held in self.during(fluent):
            if held.start > start:
                gaps.append(Interval(start, held.start))
            start = held.end
        if start < inf:
            gaps.append(Interval(start))
        return tuple(gaps)

    def holding(self, name: str, at: float) -> Iterator[Arguments]:
        """Of what the fluent of that name holds at that time."""
        for arguments, timeline in self._timelines.get(name, {}).items():
            if at >= self._since and timeline.holds_at(at):
                yield arguments

    def moments(self, name: str, since: float) -> list[tuple[float, bytes, Arguments, bool]]:
        """When the fluent of that name began and ended, and of what: in order of time, and at one time of bytes."""
        found = [
            (at, encode(arguments), arguments, timeline.begins[at])
            for arguments, timeline in self._timelines.get(name, {}).items()
            for at in timeline.times[bisect_left(timeline.times, since) :]
        ]
        return sorted(found, key=itemgetter(0, 1))

    def knows(self, fluent: Fluent, at: float, begins: bool) -> bool:
        """Whether this would be no news."""
        timeline = self._find(fluent)
        known = timeline.begins.get(at) if timeline is not None else None
        return at < self._since or (known is not None and known <= begins)

    def forget(self, before: float) -> None:
        """Keep nothing that only concerns earlier times, and hear of nothing earlier any more."""
        if before <= self._since:
            return
        self._since = before
        for timelines in self._timelines.values():
            for arguments in [key for key, each in timelines.items() if each.forget(self._since)]:
                del timelines[arguments]

    def __len__(self) -> int:
        return sum(len(each.times) for timelines in self._timelines.values() for each in timelines.values())

    def _find(self, fluent: Fluent) -> Timeline | None:
        return self._timelines.get(fluent.name, {}).get(fluent.arguments)

    def _note(self, fluent: Fluent, at: float, begins: bool) -> None:
        if at >= self._since:
            timelines = self._timelines.setdefault(fluent.name, {})
            timelines.setdefault(fluent.arguments, Timeline()).note(at, begins)

"""Places in a history: how far a reader has come, and which times it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` up to but not including `end`, in Unix seconds."""

    start: float = float("-inf")
    end: float = float("inf")


class Position(msgspec.Struct, frozen=True, array_like=True):
    """How far a reader has come: everything at or before it has been seen."""

    time: float
    row: int = 0


ALWAYS = (Span(),)


def common(one: Iterable[Span], other: Sequence[Span]) -> tuple[Span, ...]:
    """The times that lie in a span of each."""
    found = (Span(max(a.start, b.start), min(a.end, b.end)) for a in one for b in other)
    return tuple(each for each in found if each.start < each.end)

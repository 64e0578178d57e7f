"""Sets of ordered values as unions of intervals: exact under intersection and complement.

An interval is two cuts. A cut lies just before or just after a value, so `< v` and `<= v` are the same kind
of thing. Numbers are taken as dense. Strings are not: the next string after `s` is `s` with a zero
character at its end, so a cut after `s` is the cut before that one, and a prefix is the interval up to the
next string that lacks it. Invariant: the cuts of a set strictly increase, hence two sets are equal exactly
if their cuts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = int | float | str
Cut: TypeAlias = tuple[int, Value, int]
"""(-1, 0, 0) is before everything, (1, 0, 0) after it all, (0, v, 0) just before v, (0, v, 1) just after."""

FIRST: Cut = (-1, 0, 0)
LAST: Cut = (1, 0, 0)
_MAX_CHAR = chr(0x10FFFF)


def before(value: Value) -> Cut:
    return (0, value, 0) if value != "" else FIRST  # no string comes before the empty one


def after(value: Value) -> Cut:
    return (0, value + "\0", 0) if isinstance(value, str) else (0, value, 1)


@dataclass(frozen=True, slots=True)
class Intervals:
    """A set of numbers or of strings: inside from each even cut to the odd one that follows."""

    cuts: tuple[Cut, ...]

    def __contains__(self, value: Value) -> bool:
        return sum(cut <= before(value) for cut in self.cuts) % 2 == 1

    def __and__(self, other: Intervals) -> Intervals:
        """Sweep over both lists of cuts, keeping those where being inside both changes."""
        events = sorted([(cut, 0) for cut in self.cuts] + [(cut, 1) for cut in other.cuts])
        inside, kept = [False, False], list[Cut]()
        for cut, side in events:
            was = all(inside)
            inside[side] = not inside[side]
            if all(inside) != was:
                kept.append(cut)
        return Intervals(_without_pairs(kept))

    def __invert__(self) -> Intervals:
        return Intervals(_without_pairs(sorted([FIRST, *self.cuts, LAST])))

    def pieces(self) -> Iterator[tuple[Cut, Cut]]:
        return zip(self.cuts[::2], self.cuts[1::2], strict=True)

    def points(self) -> tuple[Value, ...] | None:
        """The members, if they are finitely many."""
        found = []
        for low, high in self.pieces():
            value = "" if low == FIRST else low[1]
            if high != after(value):
                return None
            found.append(value)
        return tuple(found)


def _without_pairs(cuts: list[Cut]) -> tuple[Cut, ...]:
    """Two equal cuts enclose nothing."""
    kept = list[Cut]()
    for cut in cuts:
        if kept and kept[-1] == cut:
            kept.pop()
        else:
            kept.append(cut)
    return tuple(kept)


NONE = Intervals(())
ALL = Intervals((FIRST, LAST))


def only(value: Value) -> Intervals:
    return Intervals((before(value), after(value)))


def integers(first: int, last: int) -> Intervals:
    """A run of whole numbers. Cut before the next one, so that two neighbouring runs leave no gap."""
    return Intervals((before(first), before(last + 1)))


def ordered(op: str, value: Value) -> Intervals:
    """The values `< value`, `<= value`, `> value` or `>= value`."""
    cut = before(value) if op in ("<", ">=") else after(value)
    return Intervals(_without_pairs([FIRST, cut] if op in ("<", "<=") else [cut, LAST]))


def prefixed(prefix: str) -> Intervals:
    """The strings that start so."""
    end = prefix.rstrip(_MAX_CHAR)
    return Intervals((before(prefix), before(end[:-1] + chr(ord(end[-1]) + 1)) if end else LAST))

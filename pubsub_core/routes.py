"""Shortest paths from one broker to all others, through those that may be passed through.

Invariant: a way is a chain of lines on which both ends say that they hear each other, and everybody on it but its two
ends may be passed through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

MAX_STEPS = 8
"""A way of more lines than this is none."""

Route: TypeAlias = tuple[str, ...]
"""Whom to pass through, in order; the one to be reached comes last."""


def routes(
    origin: str, hears: Mapping[str, Collection[str]], through: Callable[[str], bool]
) -> dict[str, Route]:
    """A shortest way to everybody who can be reached; of several, the first in the order of names."""
    found: dict[str, Route] = {origin: ()}
    edge = [origin]
    for _ in range(MAX_STEPS):
        reached: list[str] = []
        for name in edge:
            for other in sorted(_lines(name, hears) - found.keys()):
                found[other] = (*found[name], other)
                reached.append(other)
        edge = sorted((name for name in reached if through(name)), key=found.__getitem__)
    del found[origin]
    return found


def _lines(name: str, hears: Mapping[str, Collection[str]]) -> set[str]:
    return {other for other in hears.get(name, ()) if name in hears.get(other, ())}

"""What of a rule's condition a decision point judges, and what is left for the broker.

The decision point knows the subject, the request's parameters and its context; the broker knows the event, fluents,
tables and the time. Invariant: a condition holds exactly if of one of its alternatives both parts do, and no comparison
stands in both parts of one alternative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from typing import TypeAlias

from authz.errors import InvalidSyntax
from authz.predicate import FALSE, TRUE, And, Not, Or, Path, Predicate, paths
from authz.rules.syntax import Place
from authz.rules.terms import CREDENTIALS

MOST_ALTERNATIVES = 64
KNOWN = frozenset({"user", "sub", "context"})
"""The roots of what a decision point knows."""


_Parts: TypeAlias = tuple[tuple[Predicate, ...], tuple[Predicate, ...]]
"""Of one alternative: what is decided here, and what is left to the broker."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way in which a condition can hold."""

    judged: Predicate = TRUE
    left: Predicate = TRUE


def split(where: Predicate, place: Place = (1, 1)) -> tuple[Alternative, ...]:
    """The alternatives of a condition. Raises InvalidSyntax, at the place of the rule, if there are too many."""
    by_left: dict[Predicate, list[Predicate]] = {}
    for judged, left in _split(where, True, place):
        by_left.setdefault(both(left), []).append(both(judged))
    by_judged: dict[Predicate, list[Predicate]] = {}
    for remaining, conditions in by_left.items():
        by_judged.setdefault(either(conditions), []).append(remaining)
    _limit(len(by_judged), place)
    return tuple(Alternative(judged, either(left)) for judged, left in by_judged.items())


def both(terms: Sequence[Predicate]) -> Predicate:
    """All of them, in as few words as that needs."""
    needed = list(dict.fromkeys(each for each in terms if each != TRUE))
    if FALSE in needed:
        return FALSE
    return needed[0] if len(needed) == 1 else And(tuple(needed))


def either(terms: Sequence[Predicate]) -> Predicate:
    """One of them, in as few words as that needs."""
    possible = list(dict.fromkeys(each for each in terms if each != FALSE))
    if TRUE in possible:
        return TRUE
    return possible[0] if len(possible) == 1 else Or(tuple(possible))


def is_judged(path: Path) -> bool:
    """Whether a decision point knows what is there."""
    return path.root in KNOWN or (not path.root and str(path.keys[0]).startswith(f"{CREDENTIALS}("))


def _split(predicate: Predicate, holds: bool, place: Place) -> list[_Parts]:
    known = {is_judged(path) for path in paths(predicate)}
    whole = predicate if holds else Not(predicate)
    if known == {True}:
        return [((whole,), ())]
    if known == {False}:
        return [((), (whole,))]
    if isinstance(predicate, Not):
        return _split(predicate.term, not holds, place)
    if not isinstance(predicate, And | Or):
        return [((), (whole,))]  # a comparison of what both know: the broker knows the subject too
    several = [_split(each, holds, place) for each in predicate.terms]
    if isinstance(predicate, And) is not holds:
        return [each for one in several for each in one]
    _limit(prod(map(len, several)), place)
    return [
        (tuple(chain(*(each[0] for each in way))), tuple(chain(*(each[1] for each in way))))
        for way in product(*several)
    ]


def _limit(count: int, place: Place) -> None:
    if count > MOST_ALTERNATIVES:
        problem = (
            f"the condition has {count} alternatives once what PDPs judge is told from what brokers judge,"
            f" and at most {MOST_ALTERNATIVES} are allowed: make several rules of it"
        )
        raise InvalidSyntax(problem, *place)

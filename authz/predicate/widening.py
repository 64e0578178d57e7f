"""Over-approximating a predicate: without comparisons of hidden attributes, true at least wherever it may be true."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from authz.predicate.terms import FALSE, TRUE, And, Not, Or, Path, Predicate, Relate

Hidden: TypeAlias = Callable[[Path], bool]
"""Which paths cannot be looked at."""


def widen(predicate: Predicate, hidden: Hidden, holds: bool = True) -> Predicate:
    """The predicate without comparisons of hidden attributes, true at least wherever this one may be.

    With `holds` false: true at most where this one must be.
    """
    match predicate:
        case And(terms):
            return And(tuple(widen(each, hidden, holds) for each in terms))
        case Or(terms):
            return Or(tuple(widen(each, hidden, holds) for each in terms))
        case Not(term):
            return Not(widen(term, hidden, not holds))
    if hidden(predicate.path) or (isinstance(predicate, Relate) and hidden(predicate.other)):
        return TRUE if holds else FALSE
    return predicate


def attributes(paths: Collection[Path]) -> Hidden:
    """Hides these attributes, and all below them."""
    tops = {(path.root, path.keys[:1]) for path in paths}
    return lambda path: (path.root, path.keys[:1]) in tops

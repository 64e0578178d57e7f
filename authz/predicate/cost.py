"""What a filter that somebody else has chosen may cost: counted before anything of it is compiled."""

from __future__ import annotations

from authz.errors import InvalidPredicate
from authz.predicate.compiler import MAX_DEPTH
from authz.predicate.regex import FILTER_WORK, work
from authz.predicate.terms import And, Glob, Not, Or, Predicate, Regex

MAX_COMPARISONS = 256
"""In one filter."""
PEER_COMPARISONS = 16 * MAX_COMPARISONS
"""In what a broker asks of another: there the filters of policies are in it too."""
MAX_GLOB = 256
"""Characters of one pattern with stars: searching for it takes its length times that of the text."""


def check_cost(predicate: Predicate, most: int = MAX_COMPARISONS) -> None:
    """Raise InvalidPredicate if a filter is too large, too deep, or too much to search for."""
    left, comparisons = FILTER_WORK, 0
    waiting = [(predicate, 1)]
    while waiting:
        term, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise InvalidPredicate("a condition", f"is nested deeper than {MAX_DEPTH} levels: flatten it")
        if isinstance(term, And | Or):
            waiting += [(each, depth + 1) for each in term.terms]
        elif isinstance(term, Not):
            waiting.append((term.term, depth + 1))
        else:
            comparisons += 1
        if comparisons + len(waiting) > most:
            raise InvalidPredicate("a filter", f"must have at most {most} comparisons")
        if isinstance(term, Glob) and len(term.pattern) > MAX_GLOB:
            raise InvalidPredicate("LIKE", f"must have a pattern of at most {MAX_GLOB} characters")
        if isinstance(term, Regex):
            left -= work(term.pattern, left)

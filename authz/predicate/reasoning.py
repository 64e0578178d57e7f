"""What follows from what: whether a predicate can hold at all, covers another, or excludes it.

One question carries all: is there a request that satisfies this? It is answered by a tableau. The predicate
is opened branch by branch into conjunctions of literals, and a branch closes when the literals on one path
admit no value. Invariant: a branch is closed only if nothing satisfies it, so `covers` and `disjoint` say
True only when it is true. For conjunctions over ordered, finite, prefix and network domains they also say
True whenever it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from authz.predicate.domain import Facts
from authz.predicate.terms import FALSE, And, Literal, Not, Or, Path, Predicate, Relate

MAX_BRANCHES = 1024
"""Beyond so many branches the answer is the cautious one."""


def covers(wide: Predicate, narrow: Predicate) -> bool:
    """Whether `wide` holds of everything `narrow` holds of. False may also mean: not known."""
    return not satisfiable(And((narrow, Not(wide))))


def disjoint(one: Predicate, other: Predicate) -> bool:
    """Whether nothing satisfies both. False may also mean: not known."""
    return not satisfiable(And((one, other)))


def satisfiable(predicate: Predicate) -> bool:
    """Whether something may satisfy the predicate; False only if nothing can."""
    branches = list(islice(_branches([(predicate, True)], ()), MAX_BRANCHES + 1))
    return len(branches) > MAX_BRANCHES or any(map(consistent, branches))


def consistent(literals: tuple[Literal, ...]) -> bool:
    """Whether the literals may all hold at once; False only if they cannot."""
    facts: dict[Path, Facts] = {}
    for literal in literals:
        test = literal.comparison
        facts.setdefault(test.path, Facts()).learn(literal)
        if isinstance(test, Relate) and literal.holds:
            facts.setdefault(test.other, Facts()).must_exist()
    return all(fact.possible for fact in facts.values())


def conjunction(*predicates: Predicate) -> Predicate:
    """Both, or all of these at once, without what the rest already says; FALSE if they exclude each other."""
    terms = list(dict.fromkeys(_flatten(And(predicates))))
    if not satisfiable(And(tuple(terms))):
        return FALSE
    for term in tuple(terms):
        rest = tuple(each for each in terms if each is not term)
        if covers(term, And(rest)):
            terms.remove(term)
    return terms[0] if len(terms) == 1 else And(tuple(terms))


def _flatten(predicate: Predicate) -> Iterator[Predicate]:
    if not isinstance(predicate, And):
        yield predicate
        return
    for term in predicate.terms:
        yield from _flatten(term)


def _branches(
    pending: list[tuple[Predicate, bool]], literals: tuple[Literal, ...]
) -> Iterator[tuple[Literal, ...]]:
    """Each conjunction of literals that would make all pending terms true, or false where so marked."""
    if not pending:
        yield literals
        return
    (term, holds), rest = pending[0], pending[1:]
    if isinstance(term, Not):
        yield from _branches([(term.term, not holds), *rest], literals)
    elif not isinstance(term, (And, Or)):
        yield from _branches(rest, (*literals, Literal(term, holds)))
    elif isinstance(term, And) is holds:
        yield from _branches([*((each, holds) for each in term.terms), *rest], literals)
    else:
        for each in term.terms:
            yield from _branches([(each, holds), *rest], literals)

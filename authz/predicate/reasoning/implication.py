"""What follows from what: whether a predicate can hold at all, covers another, or excludes it.

One question carries all: is there a request that satisfies this? It is answered by a tableau. The predicate
is opened branch by branch into conjunctions of literals, and a branch closes when the literals on one path
admit no value. Invariant: a branch is closed only if nothing satisfies it, so `covers` and `disjoint` say
True only when it is true. For conjunctions over ordered, finite, prefix and network domains they also say
True whenever it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from authz.predicate.reasoning.domain import Facts
from authz.predicate.terms import (
    FALSE,
    And,
    Equal,
    Exists,
    In,
    Literal,
    Not,
    Or,
    Order,
    Path,
    Predicate,
    Prefix,
    Relate,
)
from authz.predicate.traversal import conjuncts

MAX_BRANCHES = 1024
"""With more branches than this, `satisfiable` says yes without looking."""


def covers(wide: Predicate, narrow: Predicate) -> bool:
    """Whether `wide` holds of everything `narrow` holds of. False may also mean: not known."""
    return not satisfiable(And((narrow, Not(wide))))


def disjoint(one: Predicate, other: Predicate) -> bool:
    """Whether nothing satisfies both. False may also mean: not known."""
    return not satisfiable(And((one, other)))


def satisfiable(predicate: Predicate) -> bool:
    """Whether something may satisfy the predicate; False only if nothing can."""
    return any(
        number >= MAX_BRANCHES or consistent(branch) for number, branch in enumerate(_branches(predicate))
    )


def consistent(literals: tuple[Literal, ...]) -> bool:
    """Whether the literals may all hold at once; False only if they cannot."""
    if len({each.comparison.path for each in literals}) == len(literals) and all(map(_possible, literals)):
        return True
    facts: dict[Path, Facts] = {}
    for literal in literals:
        test = literal.comparison
        facts.setdefault(test.path, Facts()).learn(literal)
        if isinstance(test, Relate) and literal.holds:
            facts.setdefault(test.other, Facts()).must_exist()
    return all(fact.possible for fact in facts.values())


def _possible(literal: Literal) -> bool:
    """Whether a literal is of those that hold of some value, or of its absence, if nothing else is known of it."""
    test = literal.comparison
    if not literal.holds:
        return not isinstance(test, Exists)
    match test:
        case Equal() | Prefix():
            return True
        case In():
            return bool(test.values)
        case Order():
            return isinstance(test.value, int)
    return False


def conjunction(*predicates: Predicate) -> Predicate:
    """Both, or all of these at once, without what the rest already says; FALSE if they exclude each other."""
    terms = list(dict.fromkeys(conjuncts(And(predicates))))
    if not satisfiable(And(tuple(terms))):
        return FALSE
    for term in tuple(terms):
        rest = tuple(each for each in terms if each is not term)
        if covers(term, And(rest)):
            terms.remove(term)
    return terms[0] if len(terms) == 1 else And(tuple(terms))


def _branches(predicate: Predicate) -> Iterator[tuple[Literal, ...]]:
    """Each conjunction of literals that would make the predicate true. Depth and breadth cost no stack."""
    todo: list[tuple[Predicate, bool]] = [(predicate, True)]
    """Terms that are to be true, or false where so marked; the last comes next."""
    found: list[Literal] = []
    choices: list[tuple[Iterator[Predicate], bool, list[tuple[Predicate, bool]], list[Literal]]] = []
    while True:
        while todo:
            term, holds = todo.pop()
            if isinstance(term, Not):
                todo.append((term.term, not holds))
            elif not isinstance(term, (And, Or)):
                found.append(Literal(term, holds))
            elif isinstance(term, And) is holds:
                todo.extend((each, holds) for each in reversed(term.terms))
            else:
                choices.append((iter(term.terms), holds, todo, found))
                break
        else:
            yield tuple(found)
        while choices:
            terms, holds, rest, known = choices[-1]
            chosen = next(terms, None)
            if chosen is not None:
                todo, found = [*rest, (chosen, holds)], list(known)
                break
            choices.pop()
        else:
            return

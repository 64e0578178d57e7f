"""Walking over predicates: what stands in one, and the same one with something else in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from authz.predicate.terms import And, AnyComparison, Not, Or, Path, Predicate, Relate


def comparisons(predicate: Predicate) -> Iterator[AnyComparison]:
    """Every comparison in the predicate, from left to right."""
    if isinstance(predicate, And | Or):
        for term in predicate.terms:
            yield from comparisons(term)
    elif isinstance(predicate, Not):
        yield from comparisons(predicate.term)
    else:
        yield predicate


def paths(predicate: Predicate) -> Iterator[Path]:
    """Every path that the predicate reads, variables and terms of rules among them."""
    for test in comparisons(predicate):
        yield test.path
        if isinstance(test, Relate):
            yield test.other


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """The terms that must all hold, with conjunctions inside conjunctions taken apart."""
    if isinstance(predicate, And):
        for term in predicate.terms:
            yield from conjuncts(term)
    else:
        yield predicate


def depth(predicate: Predicate) -> int:
    """How deep the predicate is nested; 1 for a comparison."""
    if isinstance(predicate, And | Or):
        return 1 + max(map(depth, predicate.terms), default=0)
    return 1 + depth(predicate.term) if isinstance(predicate, Not) else 1


def map_comparisons(predicate: Predicate, change: Callable[[AnyComparison], Predicate]) -> Predicate:
    """The predicate with each comparison replaced by what `change` makes of it."""
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(map_comparisons(term, change) for term in predicate.terms))
    if isinstance(predicate, Not):
        return Not(map_comparisons(predicate.term, change))
    return change(predicate)


def map_paths(predicate: Predicate, change: Callable[[Path], Path]) -> Predicate:
    """The predicate about other paths."""

    def changed(test: AnyComparison) -> Predicate:
        moved: AnyComparison = replace(test, path=change(test.path))
        return replace(moved, other=change(moved.other)) if isinstance(moved, Relate) else moved

    return map_comparisons(predicate, changed)

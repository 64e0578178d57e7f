"""Constraints of role rules: predicates of the one algebra in which a rule's variables may stand as paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from authz import Request
from authz.predicate import (
    FALSE,
    REQUEST,
    TRUE,
    And,
    AnyComparison,
    Equal,
    Exists,
    Layout,
    Literal,
    Not,
    Or,
    Order,
    Overlaps,
    Path,
    Predicate,
    Relate,
    compile_predicate,
    map_comparisons,
    paths,
)
from authz.predicate.terms import OrderName
from pdp.oasis.terms import Bindings, Constant


@dataclass(frozen=True, slots=True)
class Case:
    """A request, together with what the variables of a rule are bound to."""

    request: Request
    bindings: Bindings


Test: TypeAlias = Callable[[Case], bool]

CASE: Layout[Case] = Layout(
    {root: place.replace("it.", "it.request.") for root, place in REQUEST.attributes.items()}
    | {"": "it.bindings"},
    {root: place.replace("it.", "it.request.") for root, place in REQUEST.names.items()},
)
"""A case, for predicates in which variables stand."""

_VARIABLES: Layout[Bindings] = Layout({"": "it"})
_FLIPPED: dict[str, OrderName] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compile_constraint(predicate: Predicate) -> Test:
    """The function that says whether a constraint holds. Raises InvalidPredicate if it cannot be meant."""
    return compile_predicate(predicate, CASE)


def variables(predicate: Predicate) -> frozenset[str]:
    return frozenset(str(path) for path in paths(predicate) if not path.root)


def unguarded(predicate: Predicate, known: frozenset[Path] = frozenset()) -> Predicate | None:
    """The first part that a missing attribute could make true: a negation, unless `exists` stands beside it.

    Role rules have no negation, since what is not known must not open anything.
    """
    if isinstance(predicate, (And, Or)):
        sure = (
            {each.path for each in predicate.terms if isinstance(each, Exists)}
            if isinstance(predicate, And)
            else ()
        )
        found = (unguarded(each, known | frozenset(sure)) for each in predicate.terms)
        return next((each for each in found if each is not None), None)
    if isinstance(predicate, Not):
        inner = predicate.term
        plain = not isinstance(inner, (And, Or, Not))
        return None if plain and known.issuperset(p for p in paths(inner) if p.root) else predicate
    return None


def bind(predicate: Predicate, bindings: Bindings) -> Predicate:
    """The predicate with constants for its variables: one over the request alone, true of the same requests."""
    return map_comparisons(predicate, lambda test: _bind_comparison(test, bindings))


def bind_literals(literals: Iterable[Literal], bindings: Bindings) -> Iterator[Literal]:
    """The same literals with constants for variables; those that only compare constants are left out."""
    for each in literals:
        bound = _bind_comparison(each.comparison, bindings)
        if not isinstance(bound, (And, Or)):
            yield Literal(bound, each.holds)


def _bind_comparison(test: AnyComparison, bindings: Bindings) -> AnyComparison | And | Or:
    if all(not path.root for path in paths(test)):
        return TRUE if compile_predicate(test, _VARIABLES)(bindings) else FALSE
    if not isinstance(test, Relate) or (test.path.root and test.other.root):
        return test
    if not test.path.root:
        return _bind_left(bindings[str(test.path)], test)
    value = bindings[str(test.other)]
    if test.op == "==":
        return Equal(test.path, value)
    return Order(test.path, _ORDERS[test.op], value) if test.op in _ORDERS else FALSE


def _bind_left(value: Constant, test: Relate) -> AnyComparison | Or:
    if test.op == "==":
        return Equal(test.other, value)
    if test.op == "in":
        return Overlaps(test.other, (value,))
    return Order(test.other, _FLIPPED[test.op], value) if test.op in _FLIPPED else FALSE


_ORDERS: dict[str, OrderName] = {"<": "<", "<=": "<=", ">": ">", ">=": ">="}

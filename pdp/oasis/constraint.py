"""Constraints of role rules: predicates of the one algebra in which a rule's variables may stand as paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import structs

from authz import Request
from authz.predicate import (
    FALSE,
    REQUEST,
    TRUE,
    And,
    AnyComparison,
    Equal,
    Exists,
    Kind,
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
    strict,
)
from authz.predicate.negation import kind_of
from authz.predicate.reasoning import Witness, compile_witness
from authz.predicate.terms import OrderName
from pdp.oasis.terms import Bindings, Constant


@dataclass(frozen=True, slots=True)
class Case:
    """A request, together with what the variables of a rule are bound to."""

    request: Request
    bindings: Bindings

    @property
    def texts(self) -> dict[str, str]:
        """The bindings as texts, which is what they are compared with the ids of entities as."""
        return {name: str(value) for name, value in self.bindings.items()}


Test: TypeAlias = Callable[[Case], bool]

_TEXT = "text"
"""The root of variables that are compared as texts."""

CASE: Layout[Case] = Layout(
    {root: place.replace("it.", "it.request.") for root, place in REQUEST.attributes.items()}
    | {"": "it.bindings", _TEXT: "it.texts"},
    {root: place.replace("it.", "it.request.") for root, place in REQUEST.names.items()},
)
"""A case, for predicates in which variables stand."""

_VARIABLES: Layout[Bindings] = Layout({"": "it"})
_FLIPPED: dict[str, OrderName] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compile_constraint(predicate: Predicate) -> Test:
    """The function that says whether a constraint holds. Raises InvalidPredicate if it cannot be meant."""
    return compile_predicate(_worded(predicate), CASE)


def constraint_witness(predicate: Predicate) -> Witness[Case]:
    """The function that says whether a constraint holds, and by which literals: for `bind_literals`."""
    return compile_witness(_worded(predicate), CASE)


def _worded(predicate: Predicate) -> Predicate:
    """The predicate as it is meant: what does not fit fulfils no `!=`, and beside an id a variable is its text."""

    def worded(test: AnyComparison) -> Predicate:
        if isinstance(test, Relate):
            if _is_id(test.path) and not test.other.root:
                return structs.replace(test, other=Path(_TEXT, test.other.keys))
            if _is_id(test.other) and not test.path.root:
                return structs.replace(test, path=Path(_TEXT, test.path.keys))
        return test

    return map_comparisons(strict(predicate), worded)


def _is_id(path: Path) -> bool:
    return bool(path.root) and not path.keys


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
    return bind_as_written(strict(predicate), bindings)


def bind_as_written(predicate: Predicate, bindings: Bindings) -> Predicate:
    """The same for a predicate that others will read, such as the condition of a capability."""
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
    if not isinstance(test, Relate):
        return test
    left, right = (
        _value(path, other, bindings) for path, other in ((test.path, test.other), (test.other, test.path))
    )
    if left is not None:
        return _bind_left(left, test)
    if right is None:
        return test
    value = right
    if test.op == "==":
        return Equal(test.path, value)
    if test.op == "comparable":
        return Kind(test.path, kind_of(value))
    return Order(test.path, _ORDERS[test.op], value) if test.op in _ORDERS else FALSE


def _value(path: Path, other: Path, bindings: Bindings) -> Constant | None:
    """What a variable is bound to, beside an id as its text; None for what is no variable."""
    if path.root not in ("", _TEXT):
        return None
    value = bindings[str(path.keys[0])]
    return str(value) if path.root == _TEXT or _is_id(other) else value


def _bind_left(value: Constant, test: Relate) -> AnyComparison | Or:
    if test.op == "==":
        return Equal(test.other, value)
    if test.op == "comparable":
        return Kind(test.other, kind_of(value))
    if test.op == "in":
        return Overlaps(test.other, (value,))
    return Order(test.other, _FLIPPED[test.op], value) if test.op in _FLIPPED else FALSE


_ORDERS: dict[str, OrderName] = {"<": "<", "<=": "<=", ">": ">", ">=": ">="}

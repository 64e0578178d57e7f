"""What is left of a condition once everything but one root is known: partial evaluation, exact.

Invariant: for every value of the unknown root, the residual holds exactly if the condition does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from authz.errors import InvalidPredicate
from authz.predicate.compiler import REQUEST, compile_predicate, compile_reader
from authz.predicate.terms import (
    FALSE,
    TRUE,
    And,
    AnyComparison,
    Equal,
    EqualDocument,
    In,
    Kind,
    Not,
    Or,
    Order,
    OrderName,
    Overlaps,
    Path,
    Predicate,
    Relate,
    Scalar,
    Subset,
)
from authz.predicate.values import LISTS, is_number, kind
from authz.request import Request

_FLIPPED: dict[str, OrderName] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def all_of(terms: Iterable[Predicate]) -> Predicate:
    """The conjunction, without what is known."""
    kept: dict[Predicate, None] = {}
    for term in terms:
        if term == FALSE:
            return FALSE
        kept.update(dict.fromkeys(term.terms if isinstance(term, And) else (term,)))
    return next(iter(kept)) if len(kept) == 1 else And(tuple(kept))


def any_of(terms: Iterable[Predicate]) -> Predicate:
    """The disjunction, without what is known."""
    kept: dict[Predicate, None] = {}
    for term in terms:
        if term == TRUE:
            return TRUE
        kept.update(dict.fromkeys(term.terms if isinstance(term, Or) else (term,)))
    return next(iter(kept)) if len(kept) == 1 else Or(tuple(kept))


def none_of(term: Predicate) -> Predicate:
    """The complement, without what is known."""
    if isinstance(term, Not):
        return term.term
    return FALSE if term == TRUE else TRUE if term == FALSE else Not(term)


def residual(
    condition: Predicate, request: Request, root: str, know: Callable[[AnyComparison], Predicate]
) -> Predicate:
    """The condition about one root, everything else being as in the request.

    `know` says what is known of a comparison of that root, or gives it back. Raises InvalidPredicate for what cannot be
    said of that root alone.
    """
    match condition:
        case And(terms):
            return all_of(residual(each, request, root, know) for each in terms)
        case Or(terms):
            return any_of(residual(each, request, root, know) for each in terms)
        case Not(term):
            return none_of(residual(term, request, root, know))
    about = condition.path.root == root
    if isinstance(condition, Relate):
        other = condition.other.root == root
        if about and other:
            return condition
        if about:
            found = _read(condition.other, request)
            return _each(_left(condition.path, condition.op, found), know)
        if other:
            found = _read(condition.path, request)
            return _each(_right(condition, found), know)
    if about:
        return know(condition)
    return TRUE if compile_predicate(condition)(request) else FALSE


def _each(term: Predicate, know: Callable[[AnyComparison], Predicate]) -> Predicate:
    match term:
        case And(terms):
            return all_of(_each(each, know) for each in terms)
        case Or(terms):
            return any_of(_each(each, know) for each in terms)
        case Not(inner):
            return none_of(_each(inner, know))
    return know(term)


def _read(path: Path, request: Request) -> object:
    return compile_reader(path, REQUEST)(request)


def _scalar(value: object) -> bool:
    return isinstance(value, (str, bool)) or is_number(value)


def _same(path: Path, value: object) -> Predicate:
    """The attribute equals a value that is known."""
    if isinstance(value, (str, bool, int, float)):
        return Equal(path, value) if _scalar(value) else FALSE
    if value is None:
        return FALSE
    try:
        return EqualDocument(path, json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        raise InvalidPredicate(str(path), "is compared with a value that is no JSON") from None


def _left(path: Path, op: str, value: object) -> Predicate:
    """`path op value`."""
    if op == "==":
        return _same(path, value)
    if op in _FLIPPED:
        return _order(path, op, value)
    if op == "comparable":
        found = kind(value)
        return Kind(path, found) if found is not None else FALSE
    if not isinstance(value, LISTS):
        return FALSE
    if op == "in":
        scalars = tuple(each for each in value if _scalar(each))
        others = [_same(path, each) for each in value if not _scalar(each)]
        return any_of([In(path, scalars), *others] if scalars else others)
    scalars = tuple(each for each in value if _scalar(each))
    return Subset(path, scalars) if op == "subset" else Overlaps(path, scalars)


def _right(test: Relate, value: object) -> Predicate:
    """`value op path`."""
    path, op = test.other, test.op
    if op == "==":
        return _same(path, value)
    if op in _FLIPPED:
        return _order(path, _FLIPPED[op], value)
    if op == "comparable":
        return _left(path, op, value)
    if op == "in":
        if value is None:
            return FALSE
        if not _scalar(value):
            if isinstance(value, float) or not path.keys:  # an id is no list
                return FALSE
            raise InvalidPredicate(str(test), "asks whether a list has a list or an object as an element")
        return Overlaps(path, (_constant(value),))
    if not isinstance(value, LISTS):
        return FALSE
    if op == "overlaps":
        return Overlaps(path, tuple(each for each in value if _scalar(each)))
    if not all(map(_scalar, value)):
        return FALSE
    return all_of([Kind(path, "list"), *(Overlaps(path, (each,)) for each in value)])


def _order(path: Path, op: str, value: object) -> Predicate:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value != value:
        return FALSE
    return Order(path, op, value)  # type: ignore[arg-type]


def _constant(value: object) -> Scalar:
    assert isinstance(value, (str, int, float, bool))
    return value

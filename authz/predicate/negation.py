"""What `not` means where somebody writes it: false, like every comparison, of what is missing or of another type.

`Not` is the complement: it holds wherever its term does not, which reasoning and certificates need. A condition that is
written with a negation is read by `negation` instead: the negation goes inward to the comparisons (De Morgan), and each
that is negated also demands that what it compares is there and of a type that fits. Only `exists` is about absence, and
keeps its complement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from authz.predicate.terms import (
    And,
    AnyComparison,
    Cidr,
    Equal,
    EqualDocument,
    Exists,
    In,
    Kind,
    KindName,
    Names,
    Not,
    Or,
    Order,
    OrderName,
    Overlaps,
    Predicate,
    Relate,
    Scalar,
    Subset,
)

Fits: TypeAlias = Callable[[AnyComparison], tuple[Predicate, ...]]
"""What must be so for a comparison to be meant at all: its negation demands it too."""

_OPPOSITE: dict[str, OrderName] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def fits(test: AnyComparison) -> tuple[Predicate, ...]:
    """That what is compared is there, and of a type of which the comparison could be true."""
    match test:
        case Equal(path, value):
            return (Kind(path, kind_of(value)),)
        case EqualDocument(path, text):
            return (Kind(path, "list" if text.lstrip().startswith("[") else "object"),)
        case In(path, values):
            kinds = tuple(Kind(path, each) for each in dict.fromkeys(map(kind_of, values)))
            return (Exists(path),) if not kinds else kinds if len(kinds) == 1 else (Or(kinds),)
        case Cidr(path):
            return (Or((Cidr(path, "0.0.0.0/0"), Cidr(path, "::/0"))),)
        case Subset(path) | Overlaps(path) | Names(path):
            return (Kind(path, "list"),)
        case Relate(path, "in", other):
            return Exists(path), Kind(other, "list")
        case Relate(path, "subset" | "overlaps", other):
            return Kind(path, "list"), Kind(other, "list")
        case Relate(path, _, other):
            return (Relate(path, "comparable", other),)
        case Exists(path) | Kind(path):
            return (Exists(path),)
    return (Kind(test.path, "string"),)


def kind_of(value: Scalar) -> KindName:
    """The JSON type of a constant."""
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def negation(predicate: Predicate, fitting: Fits = fits) -> Predicate:
    """What `not` of the predicate means."""
    match predicate:
        case And(terms):
            inner = negated(predicate, fitting)
            return inner if inner is not None else Or(tuple(negation(each, fitting) for each in terms))
        case Or(terms):
            return And(tuple(negation(each, fitting) for each in terms))
        case Not(term):
            return term if isinstance(term, Exists) else strict(term, fitting)
        case Exists():
            return Not(predicate)
        case Order(path, op, value):
            return Order(path, _OPPOSITE[op], value)
        case Relate(path, "<" | "<=" | ">" | ">=" as op, other):
            return Relate(path, _OPPOSITE[op], other)
    demanded = fitting(predicate)
    return And((*demanded, Not(predicate))) if demanded else Not(predicate)


def strict(predicate: Predicate, fitting: Fits = fits) -> Predicate:
    """The predicate with each `Not` read as `negation`."""
    match predicate:
        case And(terms):
            if negated(predicate, fitting) is not None:
                return predicate
            return And(tuple(strict(each, fitting) for each in terms))
        case Or(terms):
            return Or(tuple(strict(each, fitting) for each in terms))
        case Not(term):
            return negation(term, fitting)
    return predicate


def negated(predicate: Predicate, fitting: Fits = fits) -> AnyComparison | None:
    """The comparison of which this is the negation; None if it is that of none."""
    last = predicate.terms[-1] if isinstance(predicate, And) and predicate.terms else None
    if not isinstance(last, Not) or isinstance(last.term, And | Or | Not | Exists):
        return None
    return last.term if predicate == negation(last.term, fitting) else None

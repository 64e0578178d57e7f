"""A condition split by whom it is about: the subject, what is asked for, both compared, or the request's context.

Invariant: the condition holds of a request exactly if all four parts of one of its clauses do. So the first two parts
can be evaluated over entities alone, the third over pairs of their values, and only the fourth needs the request.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from authz.predicate import FALSE, TRUE, And, Not, Or, Path, Predicate, Relate, paths

MAX_CLAUSES = 64
"""What would fall apart into more clauses than these is left whole, as a comparison or as context."""


class Clause(msgspec.Struct, frozen=True):
    """A conjunction of four conditions."""

    subject: Predicate = TRUE
    permission: Predicate = TRUE
    """About the object and the action."""
    join: Predicate = TRUE
    """Compares the subject with the object or the action."""
    ask: Predicate = TRUE
    """Looks at the context, which nobody knows before the request."""


class Part(enum.StrEnum):
    """What a condition is about."""

    SUBJECT = "subject"
    PERMISSION = "permission"
    JOIN = "join"
    ASK = "ask"


_Product: TypeAlias = dict[Part, tuple[Predicate, ...]]


def split(condition: Predicate) -> tuple[Clause, ...]:
    """The clauses of a condition; none if it never holds."""
    clauses = [
        Clause(**{part: _all(terms) for part, terms in product.items()})
        for product in _products(condition, True)
    ]
    return tuple(clauses) if len(clauses) == 1 else tuple(dict.fromkeys(clauses))


def _products(term: Predicate, holds: bool) -> list[_Product]:
    """The term, or its negation, as a disjunction of products of parts."""
    part = _part(term)
    if part is not None:
        return [{part: (term if holds else Not(term),)}]
    if isinstance(term, Not):
        return _products(term.term, not holds)
    assert isinstance(term, (And, Or))
    if isinstance(term, And) is holds:
        return _multiply(term.terms, holds)
    products = _add(term.terms, holds)
    return products if len(products) <= MAX_CLAUSES else _whole(term, holds)


def _whole(term: Predicate, holds: bool) -> list[_Product]:
    return [{_mixed(term): (term if holds else Not(term),)}]


def _multiply(terms: Iterable[Predicate], holds: bool) -> list[_Product]:
    """Every way to take one product of each term; a term that would make them too many is left whole."""
    plain: _Product = {}
    mixed = []
    for term in terms:
        part = _part(term)
        if part is None:
            mixed.append(term)
        else:
            plain[part] = (*plain.get(part, ()), term if holds else Not(term))
    products = [plain]
    for term in mixed:
        factor = _products(term, holds)
        if len(products) * len(factor) > MAX_CLAUSES:
            factor = _whole(term, holds)
        products = [_together(one, other) for one in products for other in factor]
    return products


def _together(one: _Product, other: _Product) -> _Product:
    return {part: one.get(part, ()) + other.get(part, ()) for part in {**one, **other}}


def _add(terms: Iterable[Predicate], holds: bool) -> list[_Product]:
    """The products of all terms; terms about the same part become one."""
    products: list[_Product] = []
    alike: dict[Part, list[Predicate]] = {}
    for term in terms:
        part = _part(term)
        if part is None:
            products += _products(term, holds)
        else:
            alike.setdefault(part, []).append(term if holds else Not(term))
    whole: list[_Product] = [
        {part: (each[0] if len(each) == 1 else Or(tuple(each)),)} for part, each in alike.items()
    ]
    return whole + products


def _part(term: Predicate) -> Part | None:
    """The part that a term belongs to; None if it must be split further."""
    if not isinstance(term, (And, Or, Not, Relate)):
        return part_of(term.path)
    parts = {part_of(path) for path in paths(term)} or {Part.PERMISSION}  # true and false look at nothing
    if len(parts) == 1:
        return parts.pop()
    return _mixed(term) if isinstance(term, Relate) else None


def _mixed(term: Predicate) -> Part:
    return Part.ASK if Part.ASK in map(part_of, paths(term)) else Part.JOIN


def part_of(path: Path) -> Part:
    """To which part the root of a path belongs; what comes after a colon only tells roots of one part apart."""
    return _PARTS.get(path.root) or _PARTS.get(path.root.partition(":")[0], Part.ASK)


_PARTS = {"subject": Part.SUBJECT, "object": Part.PERMISSION, "action": Part.PERMISSION}


def _all(terms: tuple[Predicate, ...]) -> Predicate:
    flat = tuple(each for term in terms for each in (term.terms if isinstance(term, And) else (term,)))
    if len(flat) > 1:
        flat = tuple(dict.fromkeys(flat))
    return FALSE if FALSE in flat else flat[0] if len(flat) == 1 else And(flat)

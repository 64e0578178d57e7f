"""Conditions of rules about one type, for one client: attributes by UUID, what is known of the client put in.

What remains speaks of the event, and of terms such as `now()` or `treats(user, patient_id)`, which are looked up for
each event. Invariant: `event_part` lets through every event for which the whole condition could hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, cast

from msgspec import structs

from authz.predicate import (
    FALSE,
    TRUE,
    And,
    AnyComparison,
    Equal,
    Not,
    Or,
    Order,
    Path,
    Predicate,
    Relate,
    compile_predicate,
    paths,
)
from authz.predicate.compiler import EVENT as LAYOUT
from authz.predicate.filter import EVENT, PARAMETER, USER
from authz.predicate.terms import OrderName, RelationName
from pubsub_core.errors import InvalidFilter
from pubsub_core.types import Attribute, bind_filter

Known: TypeAlias = Mapping[str, Mapping[str, object]]
"""What is known when rules are read: of the `user`, and as `sub` what the request's filter fixes."""
_FLIPPED: Mapping[str, RelationName] = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def bind_condition(predicate: Predicate, names: Mapping[str, Attribute], known: Known) -> Predicate:
    """The condition by UUIDs. Raises InvalidFilter."""
    return _Binder(names, known).bind(predicate)


class _Binder:
    def __init__(self, names: Mapping[str, Attribute], known: Known) -> None:
        self._names = names
        self._known = known

    def bind(self, predicate: Predicate) -> Predicate:
        if isinstance(predicate, And | Or):
            return _joined(type(predicate), map(self.bind, predicate.terms))
        if isinstance(predicate, Not):
            term = self.bind(predicate.term)
            return FALSE if term == TRUE else TRUE if term == FALSE else Not(term)
        if isinstance(predicate, Relate):
            return self._relate(predicate)
        if predicate.path.root == EVENT:
            return bind_filter(predicate, self._names)
        if not predicate.path.root:
            return predicate
        return TRUE if self._holds(predicate) else FALSE

    def _relate(self, test: Relate) -> Predicate:
        """A comparison of two sides, of which what is known becomes a constant on the right."""
        left, right = test.path, test.other
        if left.root and left.root != EVENT:
            if right.root and right.root != EVENT:
                return TRUE if self._holds(test) else FALSE
            return self._relate(Relate(right, _FLIPPED[test.op], left))
        if right.root and right.root != EVENT:
            return self._constant(left, test.op, worth(right, self._known))
        if left.root and right.root:
            return bind_filter(test, self._names)
        return Relate(self._path(left), test.op, self._path(right))

    def _constant(self, path: Path, op: RelationName, value: object) -> Predicate:
        """A comparison with something that is known; false if the two cannot be compared."""
        if not isinstance(value, str | int | float | bool):
            return FALSE
        if path.root:
            self._path(path)
            try:
                bound = Relate(path, op, Path(PARAMETER, (USER,)))
                return bind_filter(bound, self._names, parameters={USER: value})
            except InvalidFilter:  # a value of another type: for another client it may fit
                return FALSE
        if op == "==":
            return Equal(path, value)
        return FALSE if isinstance(value, bool) else Order(path, cast("OrderName", op), value)

    def _path(self, path: Path) -> Path:
        if not path.root:
            return path
        if str(path.keys[0]) not in self._names:
            there = ", ".join(f"`{each}`" for each in self._names)
            raise InvalidFilter(str(path.keys[0]), f"is not an attribute of this type: it has {there}")
        return Path(EVENT, (self._names[str(path.keys[0])].id, *path.keys[1:]))

    def _holds(self, test: AnyComparison) -> bool:
        """Whether something is so of what is known."""
        flat = {str(path): worth(path, self._known) for path in paths(test)}
        placed: AnyComparison = structs.replace(test, path=Path(EVENT, (str(test.path),)))
        if isinstance(placed, Relate):
            placed = structs.replace(placed, other=Path(EVENT, (str(placed.other),)))
        return compile_predicate(placed, LAYOUT)(flat)


def _joined(kind: type[And] | type[Or], terms: Iterable[Predicate]) -> Predicate:
    """All or one of these, without what is certain by now."""
    neutral, decisive = (TRUE, FALSE) if kind is And else (FALSE, TRUE)
    left = tuple(each for each in terms if each != neutral)
    if decisive in left:
        return decisive
    return left[0] if len(left) == 1 else kind(left)


def worth(path: Path, known: Known) -> object:
    """What `user.name` or `sub.name` stands for; `user` alone is its id."""
    return known.get(path.root, {}).get(str(path.keys[0]) if path.keys else "subject")


def event_part(predicate: Predicate) -> Predicate:
    """The narrowest that can be said of the event alone."""
    return _weakened(predicate, is_about_event)


def is_about_event(predicate: Predicate) -> bool:
    """Whether nothing but the event has to be known."""
    return all(path.root == EVENT for path in paths(predicate))


def without(predicate: Predicate, ids: frozenset[str]) -> Predicate:
    """The narrowest that can be said without these attributes."""
    return _weakened(predicate, lambda part: not any(path.keys[0] in ids for path in paths(part)))


def _weakened(predicate: Predicate, sayable: Callable[[Predicate], bool]) -> Predicate:
    """The narrowest that follows from the predicate and has only parts that can be said."""
    match predicate:
        case And(terms):
            parts = tuple(part for part in (_weakened(term, sayable) for term in terms) if part != TRUE)
            return parts[0] if len(parts) == 1 else And(parts)
        case Or(terms):
            parts = tuple(_weakened(term, sayable) for term in terms)
            return TRUE if TRUE in parts else Or(parts)
    return predicate if sayable(predicate) else TRUE


def fixed(predicate: Predicate) -> dict[str, object]:
    """The attributes, by name, of which a filter lets one value through only."""
    match predicate:
        case And(terms):
            return {name: value for term in terms for name, value in fixed(term).items()}
        case Equal(path, value, False) if path.root == EVENT and len(path.keys) == 1:
            return {str(path.keys[0]): value}
    return {}

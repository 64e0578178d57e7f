"""How JSON values compare: what the words of the algebra mean for the values they meet.

Booleans are not numbers, 1 and 1.0 are one number, null is the same as missing, a tuple or set counts as a
list (which it becomes on the wire). Every function is total: a value of another type is simply not equal,
not in.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from functools import lru_cache

from authz.predicate.terms import KindName, Scalar

LISTS = (list, tuple, set, frozenset)
NUMBERS = (int, float)


class _Token:
    """Stands in a set of constants for a value that Python would confuse with another, or could not hash."""

    __slots__ = ()


_TRUE, _FALSE, _OTHER = _Token(), _Token(), _Token()


def key(value: object) -> object:
    """What a scalar is in a set of scalars; anything else is in no set."""
    if isinstance(value, str):
        return value
    if value is True:
        return _TRUE
    if value is False:
        return _FALSE
    return value if isinstance(value, NUMBERS) else _OTHER


def scalar(key: object) -> Scalar:
    """The scalar that a key stands for."""
    if key is _TRUE or key is _FALSE:
        return key is _TRUE
    assert isinstance(key, (str, int, float))
    return key


def keys(values: Iterable[Scalar]) -> frozenset[object]:
    return frozenset(map(key, values))


def is_number(value: object) -> bool:
    return isinstance(value, NUMBERS) and value.__class__ is not bool and value == value


def dig(value: object, path: tuple[str | int, ...]) -> object:
    """Follow names through objects and positions through lists, -1 the last; None where the way ends."""
    for step in path:
        if isinstance(step, str):
            if not isinstance(value, dict):
                return None
            value = value.get(step)
        else:
            if not isinstance(value, (list, tuple)) or not -len(value) <= step < len(value):
                return None
            value = value[step]
    return value


def same(left: object, right: object) -> bool:
    """Whether two JSON values are equal. Null equals nothing at the top, and itself inside."""
    return left is not None and _same(left, right)


def _same(left: object, right: object) -> bool:
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(_same(value, right[name]) for name, value in left.items())
        )
    if isinstance(left, (list, tuple)):
        return isinstance(right, (list, tuple)) and len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def subset(values: object, of: frozenset[object]) -> bool:
    return isinstance(values, LISTS) and of.issuperset(map(key, values))


def overlaps(values: object, constants: frozenset[object]) -> bool:
    return isinstance(values, LISTS) and not constants.isdisjoint(map(key, values))


def names(values: object, wanted: frozenset[str]) -> bool:
    """Whether a list has an element of one of these names; parameters follow a name in parentheses."""
    return isinstance(values, LISTS) and any(
        isinstance(each, str) and each.partition("(")[0] in wanted for each in values
    )


def overlaps_texts(values: object, texts: frozenset[str]) -> bool:
    """The same for constants that are all strings, where Python's own set operation cannot go wrong."""
    if not isinstance(values, LISTS):
        return False
    try:
        return not texts.isdisjoint(values)
    except TypeError:
        return overlaps(values, texts)


@lru_cache(maxsize=4096)
def address(text: str) -> tuple[int, int] | None:
    """The IP version and number of an address; None if the text is none."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    return parsed.version, int(parsed)


def network_range(network: str) -> tuple[int, int, int]:
    """The IP version, first and last number of a network. Raises ValueError for what is no network."""
    parsed = ipaddress.ip_network(network)
    return parsed.version, int(parsed.network_address), int(parsed.broadcast_address)


def network_test(network: str) -> Callable[[object], bool]:
    version, first, last = network_range(network)

    def inside(value: object) -> bool:
        if not isinstance(value, str):
            return False
        found = address(value)
        return found is not None and found[0] == version and first <= found[1] <= last

    return inside


def _ordered(left: object, right: object) -> bool:
    return (is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str))


def _member(value: object, values: object) -> bool:
    return isinstance(values, LISTS) and any(same(value, each) for each in values)


def _subset(left: object, right: object) -> bool:
    return isinstance(right, LISTS) and subset(left, frozenset(map(key, right)) - {_OTHER})


def _overlaps(left: object, right: object) -> bool:
    return isinstance(right, LISTS) and overlaps(left, frozenset(map(key, right)) - {_OTHER})


def kind(value: object) -> KindName | None:
    """The JSON type of a value; None if there is none, or it is of none."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, LISTS):
        return "list"
    return "object" if isinstance(value, dict) else "number" if is_number(value) else None


def _comparable(left: object, right: object) -> bool:
    found = kind(left)
    return found is not None and found == kind(right)


RELATIONS: dict[str, Callable[[object, object], bool]] = {
    "==": same,
    "<": lambda a, b: _ordered(a, b) and a < b,  # type: ignore[operator]
    "<=": lambda a, b: _ordered(a, b) and a <= b,  # type: ignore[operator]
    ">": lambda a, b: _ordered(a, b) and a > b,  # type: ignore[operator]
    ">=": lambda a, b: _ordered(a, b) and a >= b,  # type: ignore[operator]
    "in": _member,
    "subset": _subset,
    "overlaps": _overlaps,
    "comparable": _comparable,
}

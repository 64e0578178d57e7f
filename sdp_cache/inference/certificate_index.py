"""Where a certificate is filed so that the requests it speaks of find it.

A positive literal names values that a request must have: as the value of an attribute, as an element of a
list, or as the beginning of a string. A certificate's shape is what it asks of which paths; its places are
the values asked for. Invariant: a request that satisfies the certificate has one of its places among its
own places for that shape, and having one implies every literal of the certificate but the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, product
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from authz import Request
from authz.predicate import REQUEST, Certificate, Equal, Glob, In, Literal, Overlaps, Path, Prefix
from authz.predicate.values import LISTS, dig, key

MAX_PLACES = 16
"""Maximum places of a certificate: a literal whose alternatives would make more is tested instead."""
MAX_ELEMENTS = 64
"""How many elements of a list in a request are looked under."""

Place: TypeAlias = tuple[object, ...]

_ROOTS = frozenset(REQUEST.attributes)


class Part(NamedTuple):
    """What a shape asks of one path."""

    kind: str
    """`is` the value, `starts` with it, or `has` it as an element."""
    path: Path
    length: int = 0
    """Of the beginning."""


class Filing(NamedTuple):
    """How to file a certificate: its shape, the places under that shape, and what remains to be tested."""

    parts: tuple[Part, ...]
    places: tuple[Place, ...]
    rest: tuple[Literal, ...]


def file(certificate: Certificate) -> Filing:
    """Divide a certificate into what can be looked up and the rest."""
    filed: dict[Part, Sequence[object]] = {}
    rest: list[Literal] = []
    room = MAX_PLACES
    for literal in certificate:
        asked = _asked(literal)
        fits = asked is not None and len(asked[1]) <= room and not _taken(asked[0], filed)
        if asked is not None and fits:
            filed[asked[0]] = asked[1]
            room //= len(asked[1])
        if not fits or isinstance(literal.comparison, Glob):
            rest.append(literal)
    parts = sorted(filed, key=lambda part: (part.kind == "has", str(part)))
    return Filing(tuple(parts), tuple(product(*(filed[part] for part in parts))), tuple(rest))


def _taken(part: Part, filed: Iterable[Part]) -> bool:
    """One value is filed for a path, and one list in all: what is `had` is looked up element by element."""
    return any(part == each or part.kind == each.kind == "has" for each in filed)


def _asked(literal: Literal) -> tuple[Part, Sequence[object]] | None:
    """What the literal asks of a path, and the values of which a request must have one."""
    asked = literal.comparison.path
    if not literal.holds or asked.root not in (_ROOTS if asked.keys else REQUEST.names):
        return None
    match literal.comparison:
        case Equal(path, value, fold=False):
            return Part("is", path), (key(value),)
        case In(path, values) if values:
            return Part("is", path), tuple(map(key, values))
        case Overlaps(path, values) if values:
            return Part("has", path), tuple(map(key, values))
        case Prefix(path, value, fold=False):
            return Part("starts", path, len(value)), (value,)
        case Glob(path, pattern):
            head = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
            return Part("starts", path, len(head)), (head,)
    return None


class Shape:
    """How a request's places are read, for all certificates of one shape."""

    __slots__ = ("_elements", "_number", "_values")

    def __init__(self, number: int, parts: Sequence[Part]) -> None:
        self._number = number
        self._values = tuple(_value(part) for part in parts if part.kind != "has")
        self._elements = next((_reader(part.path) for part in parts if part.kind == "has"), None)

    def place(self, place: Place) -> Place:
        """A place of this shape among those of all shapes."""
        return (self._number, *place)

    def places(self, request: Request) -> Iterable[Place]:
        """Where certificates of this shape would be that speak of the request."""
        fixed = (self._number, *[value(request) for value in self._values])
        if self._elements is None:
            return (fixed,)
        elements = self._elements(request)
        if not isinstance(elements, LISTS):
            return ()
        return [(*fixed, key(element)) for element in islice(elements, MAX_ELEMENTS)]


def _value(part: Part) -> Callable[[Request], object]:
    read, length = _reader(part.path), part.length
    if part.kind == "starts":
        return lambda request: value[:length] if isinstance(value := read(request), str) else None
    return (lambda request: key(read(request))) if part.path.keys else read


def _reader(path: Path) -> Callable[[Request], object]:
    if not path.keys:
        return attrgetter(f"{path.root}.id")
    attributes = attrgetter("context" if path.root == "context" else f"{path.root}.attributes")
    keys, first = path.keys, path.keys[0]
    if len(keys) > 1 or not isinstance(first, str):
        return lambda request: dig(attributes(request), keys)
    return lambda request: attributes(request).get(first)

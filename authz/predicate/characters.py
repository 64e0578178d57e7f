"""The characters that one step of a regular expression takes, as Python takes them: by their numbers, and exactly."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from re import _constants as sre
from typing import Any, TypeAlias

Step: TypeAlias = tuple[object, Any]
"""A step of an expression as Python's parser gives it: what is in it depends on its kind, and has no type."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Characters by their numbers: from the first to the last of each range, ascending and apart from each other."""

LAST = 0x10FFFF
_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}


def members(kind: object, content: Any, flags: int) -> Ranges:
    """The characters that one step of an expression takes."""
    if kind is sre.ANY:
        return ((0, LAST),) if flags & re.DOTALL else but(_range(ord("\n")))
    if kind is sre.NOT_LITERAL:
        return but(_listed([(sre.LITERAL, content)], flags))
    if kind is not sre.IN:
        return _listed([(kind, content)], flags)
    items = list(content)
    if items[0][0] is sre.NEGATE:
        return but(_listed(items[1:], flags))
    return _listed(items, flags)


def _listed(items: list[Step], flags: int) -> Ranges:
    plain = union(_each(items, flags & re.ASCII))
    if not flags & re.IGNORECASE:
        return plain
    # What has upper and lower case, Python itself is asked about; on the rest the flag has no bearing.
    text = "".join(map(_python, items))
    found = re.findall(f"[{text}]", _cased(), flags & (re.IGNORECASE | re.ASCII))
    return union((*both(plain, but(_cased_ranges())), *((ord(each), ord(each)) for each in found)))


def _each(items: list[Step], ascii_only: int) -> Iterator[tuple[int, int]]:
    for kind, content in items:
        if kind is sre.CATEGORY:
            yield from category(_CATEGORIES[content], ascii_only)
        elif isinstance(content, int):
            yield content, content
        else:
            yield content[0], content[1]


def _python(item: Step) -> str:
    kind, content = item
    if kind is sre.CATEGORY:
        return _CATEGORIES[content]
    first, last = content if isinstance(content, tuple) else (content, content)
    return f"\\U{first:08x}-\\U{last:08x}" if kind is sre.RANGE else f"\\U{first:08x}"


@cache
def category(text: str, ascii_only: int) -> Ranges:
    """All that `\\w`, or another such class, is for Python, whatever version of Unicode it has."""
    if text.isupper():
        return but(category(text.lower(), ascii_only))
    spans = (found.span() for found in re.finditer(f"{text}+", _everything(), ascii_only))
    return tuple((start, end - 1) for start, end in spans)


def _everything() -> str:
    """Each character once, at its number's place."""
    return array("I", range(LAST + 1)).tobytes().decode(f"utf-32-{sys.byteorder[0]}e", "surrogatepass")


@cache
def _cased() -> str:
    """All characters that have a case, or are what another becomes in another case."""
    letters = [each for each in map(chr, range(LAST + 1)) if each.lower() != each or each.upper() != each]
    return "".join({each for one in letters for each in one + one.lower() + one.upper()})


@cache
def _cased_ranges() -> Ranges:
    return union((ord(each), ord(each)) for each in _cased())


def _range(character: int) -> Ranges:
    return ((character, character),)


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The characters in any of them."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return tuple(found)


def but(ranges: Ranges) -> Ranges:
    """All other characters."""
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), LAST]
    return tuple((start, end) for start, end in zip(starts, ends, strict=True) if start <= end)


def both(one: Ranges, other: Ranges) -> Ranges:
    """The characters that are in both."""
    return but(union((*but(one), *but(other))))

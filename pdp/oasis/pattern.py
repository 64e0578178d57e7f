"""Which objects a privilege is for: paths with holes, matched segment by segment, and an index over many of them.

`{p}` and `*` each stand for a part of one segment, `**` at the end for one or more segments, `**` alone for every
object. A hole is never in a segment that is empty, `.` or `..`: what a path means after somebody resolves it must not
slip through a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from pdp.oasis.errors import InvalidTerm

T = TypeVar("T")
Holes: TypeAlias = tuple[str, ...]
"""What the named holes of a pattern were filled with, in the order they stand in it."""

_RELATIVE = frozenset({"", ".", ".."})
_SIGNS = frozenset("{}*")
_HOLE = re.compile(r"\*|\{([A-Za-z_]\w*)\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Segment:
    """One step of a path: literal text, or text around one hole. `name` is None without a hole, "" if unnamed."""

    before: str
    name: str | None = None
    after: str = ""

    @classmethod
    def parse(cls, text: str) -> Segment:
        hole = _HOLE.search(text)
        if hole is None:
            return cls(text)
        return cls(text[: hole.start()], hole[1] or "", text[hole.end() :])

    def fill(self, text: str) -> str | None:
        """What fills the hole so that the segment becomes `text`; None if nothing does."""
        end = len(text) - len(self.after)
        if end <= len(self.before):
            return None
        if not (text.startswith(self.before) and text.endswith(self.after)):
            return None
        return text[len(self.before) : end]


@dataclass(frozen=True, slots=True)
class ObjectPattern:
    """A pattern as written, taken apart."""

    text: str
    segments: tuple[Segment, ...] = field(compare=False)
    deep: bool = field(compare=False)
    """Whether it ends in `**`, which is no segment."""

    @classmethod
    def parse(cls, text: str) -> ObjectPattern:
        parts = text.split("/")
        if text and _SIGNS.isdisjoint(text):
            return cls(text, tuple(map(Segment, parts)), False)
        deep = parts[-1] == "**"
        for part in parts[:-1] if deep else parts:
            _check_segment(text, part)
        segments = tuple(map(Segment.parse, parts[:-1] if deep else parts))
        names = [s.name for s in segments if s.name]
        if not text or len(set(names)) != len(names):
            raise InvalidTerm(f"the object pattern `{text}` must not be empty nor name a parameter twice")
        return cls(text, segments, deep)

    @property
    def names(self) -> tuple[str, ...]:
        """The named holes, in order."""
        return tuple(segment.name for segment in self.segments if segment.name)

    def exact(self, filled: Mapping[str, str]) -> bool:
        """Whether only one object is left once these holes are filled."""
        return not self.deep and all(
            segment.name is None or segment.name in filled for segment in self.segments
        )

    def regex(self, filled: Mapping[str, str]) -> str:
        """The objects left once these holes are filled, as a regular expression."""
        steps = "/".join(_segment_regex(segment, filled) for segment in self.segments)
        return rf"^{steps}{_DEEP if self.deep else ''}\Z" if self.segments else ""

    def __str__(self) -> str:
        return self.text


class _Node(Generic[T]):
    """A place in the trie of segments: the ways on, and the values of patterns that end here."""

    __slots__ = ("below", "here", "literal", "partial", "whole", "whole_named")

    def __init__(self) -> None:
        self.literal: dict[str, _Node[T]] = {}
        self.whole: _Node[T] | None = None
        self.whole_named: _Node[T] | None = None
        self.partial: dict[Segment, _Node[T]] = {}
        """Holes with text around them. Patterns that differ only in the names of holes share a node."""
        self.here: list[T] = []
        self.below: list[T] = []

    def child(self, segment: Segment) -> _Node[T]:
        """The way on for a segment, made if there is none yet."""
        if segment.name is None:
            return self.literal.setdefault(segment.before, _Node())
        if segment.before or segment.after:
            shape = Segment(segment.before, "named" if segment.name else "", segment.after)
            return self.partial.setdefault(shape, _Node())
        if segment.name:
            self.whole_named = self.whole_named or _Node()
            return self.whole_named
        self.whole = self.whole or _Node()
        return self.whole


class PatternIndex(Generic[T]):
    """Values filed under patterns: finding those for an object takes steps by its depth, not by their number."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, pattern: ObjectPattern, value: T) -> None:
        node = self._root
        for segment in pattern.segments:
            node = node.child(segment)
        (node.below if pattern.deep else node.here).append(value)

    def find(self, object_id: str) -> list[tuple[T, Holes]]:
        """Every value whose pattern matches, with what filled the named holes."""
        found: list[tuple[T, Holes]] = [(value, ()) for value in self._root.below]
        _walk(self._root, object_id.split("/"), 0, (), found)
        return found


def _walk(node: _Node[T], steps: list[str], depth: int, filled: Holes, found: list[tuple[T, Holes]]) -> None:
    """Collect the values beyond a node for the steps from `depth` on."""
    if depth == len(steps):
        found += [(value, filled) for value in node.here]
        return
    if node.below and depth and _RELATIVE.isdisjoint(steps[depth:]):
        found += [(value, filled) for value in node.below]
    step = steps[depth]
    depth += 1
    if (child := node.literal.get(step)) is not None:
        _walk(child, steps, depth, filled, found)
    if step in _RELATIVE:
        return
    if node.whole_named is not None:
        _walk(node.whole_named, steps, depth, (*filled, step), found)
    if node.whole is not None:
        _walk(node.whole, steps, depth, filled, found)
    for hole, child in node.partial.items():
        if (text := hole.fill(step)) is not None:
            _walk(child, steps, depth, (*filled, text) if hole.name else filled, found)


def _check_segment(pattern: str, part: str) -> None:
    if not _SIGNS.intersection(part):
        return
    holes = _HOLE.findall(part)
    rest = _HOLE.sub("", part)
    if len(holes) > 1 or _SIGNS.intersection(rest):
        raise InvalidTerm(
            f"the object pattern `{pattern}` is wrong at `{part}`: a segment may hold one `{{name}}` or one `*`, "
            "and `**` may stand only as the whole of the last"
        )


_NEVER = r"[^\s\S]"
_DEEP = r"(?:/(?:[^/.]|\.[^/.]|\.\.[^/])[^/]*)+"
_FREE = {
    "": r"(?:(?:[^/.]|\.[^/.]|\.\.[^/])[^/]*)",
    ".": r"(?:(?:[^/.]|\.[^/])[^/]*)",
}
"""What may fill a hole beside this text, so that the whole is neither `.` nor `..`."""


def _segment_regex(segment: Segment, filled: Mapping[str, str]) -> str:
    before, after = segment.before, segment.after
    if segment.name is None:
        return re.escape(before)
    if segment.name not in filled:
        return re.escape(before) + _FREE.get(before + after, "[^/]+") + re.escape(after)
    hole, text = filled[segment.name], before + filled[segment.name] + after
    return re.escape(text) if hole and "/" not in hole and text not in _RELATIVE else _NEVER

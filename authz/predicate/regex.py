r"""Regular expressions that say what Python's `re` says, in time proportional to the text.

Python's own parser reads the expression, and what it found is written again for RE2, character by character: a class
becomes the very characters that Python takes for it, so nothing rests on two tables of Unicode being alike. What RE2
cannot say (references to groups, looking around) is refused: only a search that cannot stall
may run on a text that somebody else has chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from re import _constants as sre
from re import _parser as parser
from typing import Any

import re2

from authz.errors import InvalidPredicate
from authz.predicate.characters import LAST, Ranges, Step, both, category, members, union

_BYTES = 4 << 20
"""What one regular expression may take of the memory: enough for words of any alphabet, 128 letters long."""
MAX_WORK = 128 * 1024
"""What one regular expression may have in all: ranges of characters, each as often as it is repeated."""
FILTER_WORK = 16 * 1024
"""What the regular expressions of a filter may have together, since anybody can send one."""
_CASE_WORK = 128
"""What a step takes whose letters are of either case: Python is asked about each letter."""
_BOUNDARY_WORK = 1024
"""What the edge of a word takes."""
_NOTHING = rf"[^\x{{0}}-\x{{{LAST:x}}}]"
_POSIX = re.compile(
    r"\[:\^?(alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]"
)
_SHOWN = 60
"""Maximum characters of an expression that a message quotes."""
_TAKES_ONE = {sre.ANY, sre.IN, sre.LITERAL, sre.NOT_LITERAL}
_REFUSED = {
    sre.ASSERT: "looks ahead or behind",
    sre.ASSERT_NOT: "looks ahead or behind",
    sre.GROUPREF: "refers to a group",
    sre.GROUPREF_EXISTS: "refers to a group",
    sre.ATOMIC_GROUP: "forbids to go back (`(?>`)",
    sre.POSSESSIVE_REPEAT: "forbids to go back (`*+`)",
}


@lru_cache(maxsize=64)
def compile_search(pattern: str) -> Callable[[str], object]:
    """The function that finds the pattern in a text: None if it is not there. Raises InvalidPredicate."""
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, _BYTES
    try:
        search: Callable[[bytes], object] = re2.compile(translate(pattern).encode(), options).search
    except re2.error as error:
        said = error.args[0]
        problem = said.decode() if isinstance(said, bytes) else str(said)
        raise InvalidPredicate(pattern, f"cannot be searched for: {problem}") from None
    # RE2 reads halves of surrogate pairs as it does other characters, and Python must not fail on them before.
    return lambda text: search(text.encode("utf-8", "surrogatepass"))


def work(pattern: str, most: int) -> int:
    """What an expression takes to be compiled. Raises InvalidPredicate if that is more, as soon as it is seen."""
    taken = _translated(pattern, FILTER_WORK)[1]
    if taken > most:
        raise _TooMuchWork(pattern)
    return taken


def translate(pattern: str) -> str:
    """The same regular expression in RE2's words. Raises InvalidPredicate if there is none."""
    try:
        return _translated(pattern, FILTER_WORK)[0]
    except _TooMuchWork:
        return _translated(pattern, MAX_WORK)[0]


class _TooMuchWork(InvalidPredicate):
    def __init__(self, pattern: str) -> None:
        shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}..."
        super().__init__(
            shown,
            "takes too much to search for: repeat less, or put `(?a)` in front for letters of ASCII only",
        )


@lru_cache(maxsize=256)
def _translated(pattern: str, most: int) -> tuple[str, int]:
    """The expression in RE2's words, and what it takes."""
    if len(pattern) > most:
        raise _TooMuchWork(pattern)
    if posix := _POSIX.search(pattern):
        raise InvalidPredicate(
            pattern, f"has `{posix[0]}`, which is no class of Python's: write `\\w`, `[a-z]` or the like"
        )
    try:
        tree = parser.parse(pattern)
        translation = _Translation(pattern, most)
        return translation.sequence(tree, tree.state.flags), most - translation.left
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidPredicate(pattern, f"is no regular expression: {error}") from None


class _Translation:
    """One expression on its way from the one to the other.

    `first` says that nothing comes before, `last` that nothing follows: what only looks there may take a character, for
    the question is whether something is found, and not how much.
    """

    def __init__(self, pattern: str, most: int) -> None:
        self._pattern = pattern
        self.left = most
        """What is left of the work that it may take."""
        self._times = 1
        """How often what is written now is repeated."""

    def _take(self, work: int) -> None:
        self.left -= work * self._times
        if self.left < 0:
            raise _TooMuchWork(self._pattern)

    def sequence(self, steps: Sequence[Step], flags: int, first: bool = True, last: bool = True) -> str:
        texts = []
        for n, (kind, content) in enumerate(steps):
            begins, ends = first and n == 0, last and n == len(steps) - 1
            if kind is sre.AT and content is sre.AT_BOUNDARY and not flags & re.ASCII:
                before, after = _edge(reversed(steps[:n]), flags, -1), _edge(steps[n + 1 :], flags, 1)
                texts.append(self._boundary(before, after, begins, ends))
            else:
                texts.append(self._step(kind, content, flags, begins, ends))
        return "".join(texts)

    def _step(self, kind: object, content: Any, flags: int, first: bool, last: bool) -> str:
        match kind, content:
            case sre.AT, place:
                return self._place(place, flags, last)
            case sre.BRANCH, (_, branches):
                return "(?:" + "|".join(self.sequence(each, flags, first, last) for each in branches) + ")"
            case sre.SUBPATTERN, (_, more, less, inner):
                return "(?:" + self.sequence(inner, self._changed(flags, more, less), first, last) + ")"
            case ((sre.MAX_REPEAT | sre.MIN_REPEAT), (least, most, inner)):
                upper, once = ("" if most is sre.MAXREPEAT else most), most == 1
                before, self._times = self._times, self._times * max(1, least if upper == "" else most)
                repeated = self.sequence(inner, flags, first and once, last and once)
                self._times = before
                return f"(?:{repeated}){{{least},{upper}}}"
            case sre.FAILURE, _:
                return _NOTHING
        if kind in _REFUSED:
            raise self._refusal(f"{_REFUSED[kind]}, which cannot be held to the length of the text")
        self._take(_CASE_WORK if flags & re.IGNORECASE else 1)
        ranges = _members(kind, tuple(content) if isinstance(content, list) else content, flags)
        self._take(len(ranges))
        return _class(ranges)

    def _place(self, place: object, flags: int, last: bool) -> str:
        lines = flags & re.MULTILINE
        if place is sre.AT_BEGINNING:
            return "(?m:^)" if lines else r"\A"
        if place is sre.AT_BEGINNING_STRING:
            return r"\A"
        if place is sre.AT_END_STRING:
            return r"\z"
        if place is sre.AT_END:
            if lines:
                return "(?m:$)"
            if last:
                return r"(?:\n?\z)"
            raise self._refusal("has `$` before something else: write `\\Z` for the end of the text")
        if place is sre.AT_BOUNDARY:
            return r"\b"  # of ASCII, as RE2 has it
        raise self._refusal("has `\\B`: say by `\\w` or `\\W` what stands there")

    def _boundary(self, before: Ranges | None, after: Ranges | None, first: bool, last: bool) -> str:
        """The edge of a word: RE2 knows it of ASCII alone, so what is on one side of it must be known to be in words
        or out of them, and then the other side must not be."""
        self._take(_BOUNDARY_WORK)
        left, right = _in_words(before), _in_words(after)
        if left is not None and right is not None:
            return _NOTHING if left is right else ""
        inside, outside = _class(category(r"\w", 0)), _class(category(r"\W", 0))
        if first and right is not None:
            return rf"(?:\A|{outside})" if right else inside
        if last and left is not None:
            return rf"(?:\z|{outside})" if left else inside
        raise self._refusal(
            "has `\\b` beside what may be in a word or not: put `(?a)` in front, or say `\\w` or `\\W`"
        )

    def _changed(self, flags: int, more: int, less: int) -> int:
        if more & (re.ASCII | re.UNICODE) & ~flags:
            # Python seeks the start of a match by the alphabet of the whole, and misses some.
            raise self._refusal(
                "changes its alphabet in the middle: put `(?a)` in front of the whole, or nowhere"
            )
        return (flags | more) & ~less

    def _refusal(self, problem: str) -> InvalidPredicate:
        return InvalidPredicate(self._pattern, problem)


def _edge(steps: Iterable[Step], flags: int, way: int) -> Ranges | None:
    """The characters of which one is always taken first (way 1) or last (-1); None if none need be."""
    for kind, content in steps:
        if kind is not sre.AT:
            return _edge_of(kind, content, flags, way)
    return None


def _edge_of(kind: object, content: Any, flags: int, way: int) -> Ranges | None:
    match kind, content:
        case sre.BRANCH, (_, branches):
            edges = [_edge(each[::way], flags, way) for each in branches]
            return union(chain.from_iterable(filter(None, edges))) if all(edges) else None
        case sre.SUBPATTERN, (_, more, less, inner):
            return _edge(inner[::way], (flags | more) & ~less, way)
        case ((sre.MAX_REPEAT | sre.MIN_REPEAT), (least, _, inner)):
            return _edge(inner[::way], flags, way) if least else None
    return members(kind, content, flags) if kind in _TAKES_ONE else None


def _in_words(characters: Ranges | None) -> bool | None:
    """Whether all of them are in words (True), none is (False), or neither is so."""
    if characters is None:
        return None
    if not both(characters, category(r"\W", 0)):
        return True
    return None if both(characters, category(r"\w", 0)) else False


_members = lru_cache(maxsize=512)(members)


@lru_cache(maxsize=512)
def _class(ranges: Ranges) -> str:
    if not ranges:
        return _NOTHING
    return "[" + "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges) + "]"

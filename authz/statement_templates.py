"""Reading many statements that are alike: each shape is parsed once, and filled in for the others.

The shape of a statement is its text with every name, number and string replaced by what kind of token it is; words of
the grammar stay. Invariant: texts of one shape have one parse tree, and the same functions make values of it.

A function that does not ask where its text stands makes equal values of equal texts, so these are kept, too. Whatever
is out of the ordinary is left to the grammar, which also says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Generic, TypeAlias, TypeVar

from lark import Lark, Token, Transformer, Tree
from lark.exceptions import LarkError
from lark.tree import Meta

from authz.errors import AuthFabricError

T = TypeVar("T")

MOST_SHAPES = 4096
"""Shapes that are remembered; texts of others are left to the grammar."""
MOST_VALUES = 16_384
"""Values that are kept, and words of which it is known what they are in a shape."""

_TOKEN = re.compile(
    r"""\s+|\#.*
    |"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"
    |-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])
    |[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*
    |.""",
    re.VERBOSE,
)
_SPACE, _STRING, _NUMBER, _NAME = " ", "\1", "\2", "\3"
_WHITE = {ord(each): None for each in "\t\n\r"}
_TERMINALS = frozenset({"NAME", "STRING", "NUMBER", "WS", "COMMENT"})
"""Terminals of the grammar that are no words."""

_Tokens: TypeAlias = Sequence[str]
_Make: TypeAlias = Callable[[_Tokens, int], object]
"""Makes the value of a part of a text, given its tokens and the number of its first line."""


class OutOfTheOrdinary(Exception):
    """A text that is left to the grammar."""


class _Pieces(dict[str, str]):
    """What each token is in a shape: itself, or of which kind."""

    def __init__(self, words: frozenset[str]) -> None:
        self._words = words

    def __missing__(self, token: str) -> str:
        piece = self._piece(token)
        if len(self) < MOST_VALUES:
            self[token] = piece
        return piece

    def _piece(self, token: str) -> str:
        first = token[0]
        if first.isspace() or first == "#":
            return _SPACE
        if first == "_" or (first.isascii() and first.isalpha()):
            return token if token in self._words else _NAME
        if first in "0123456789":
            return _NUMBER
        return {"-": _NUMBER, '"': _STRING}.get(first, token) if len(token) > 1 else token


class Shapes(Generic[T]):
    """Makes values of short texts by a grammar and a transformer."""

    def __init__(self, parser: Lark, transformer: Transformer[Token, T]) -> None:
        self._parser = parser
        self._transformer = transformer
        patterns = (each.pattern.value for each in parser.terminals if _kind(each.name) not in _TERMINALS)
        words = frozenset(word for pattern in patterns for word in re.findall(r"[A-Za-z]+", pattern))
        self._pieces = _Pieces(words)
        self._known: dict[str, tuple[_Make, ...] | None] = {}
        """What makes the values of each shape; None where the grammar refuses it."""
        self._made: dict[tuple[object, ...], object] = {}
        """Values by the function that made them and the texts it was given."""

    def read(self, text: str, line: int) -> Sequence[object]:
        """The values of the children of the grammar's start in a text. Raises OutOfTheOrdinary where it is unsure.

        `line` is the number of its first line.
        """
        if not (text.isprintable() or text.translate(_WHITE).isprintable()):
            raise OutOfTheOrdinary
        tokens = _TOKEN.findall(text)
        shape = "".join(map(self._pieces.__getitem__, tokens))
        if shape not in self._known:
            self._learn(shape, text, tokens)
        makers = self._known[shape]
        if makers is None:
            raise OutOfTheOrdinary
        try:
            return [each(tokens, line) for each in makers]
        except (AuthFabricError, RecursionError):
            raise OutOfTheOrdinary from None

    def _learn(self, shape: str, text: str, tokens: _Tokens) -> None:
        if len(self._known) >= MOST_SHAPES:
            raise OutOfTheOrdinary
        starts = accumulate(map(len, tokens), initial=0)
        places = {start: place for place, start in enumerate(starts)}
        try:
            tree = self._parser.parse(text)
            self._known[shape] = tuple(self._maker(each, places)[0] for each in tree.children)
        except (LarkError, RecursionError):
            self._known[shape] = None

    def _maker(self, found: object, places: dict[int, int]) -> tuple[_Make, tuple[int, ...] | None]:
        """What makes the value of a part of a tree, and of which tokens; None if also of where they stand."""
        if found is None:
            return (lambda tokens, line: None), ()
        if isinstance(found, Token):
            place = places[found.start_pos or 0]
            return _leaf(found.type, place, "" if _kind(found.type) in _TERMINALS else str(found)), (place,)
        assert isinstance(found, Tree)
        function = getattr(self._transformer, found.data)
        asks_where = "meta" in function.visit_wrapper.__name__
        function = function.base_func  # what lark wraps around it is not asked
        several = [self._maker(each, places) for each in found.children]
        makers = [maker for maker, _ in several]
        if asks_where:
            return _placed(function, makers, places[found.meta.start_pos]), None
        used = [each for _, each in several]
        if None in used:
            return (lambda tokens, line: function(*[each(tokens, line) for each in makers])), None
        of = tuple(place for each in used for place in each or ())
        return self._keeping(function, makers, of), of

    def _keeping(
        self, function: Callable[..., object], makers: Sequence[_Make], of: tuple[int, ...]
    ) -> _Make:
        """Makes the value if it was not made of these texts before."""
        made, mark = self._made, object()

        def make(tokens: _Tokens, line: int) -> object:
            key = (mark, *[tokens[place] for place in of])
            if key in made:
                return made[key]
            value = function(*[each(tokens, line) for each in makers])
            if len(made) >= MOST_VALUES:
                made.clear()
            made[key] = value
            return value

        return make


def _leaf(kind: str, place: int, text: str) -> _Make:
    """The token at a place; with its text, if that is part of the shape."""
    return lambda tokens, line: Token(kind, text or tokens[place])


def _placed(function: Callable[..., object], makers: Sequence[_Make], place: int) -> _Make:
    """For a function that asks where its first token stands."""

    def make(tokens: _Tokens, line: int) -> object:
        meta = Meta()  # type: ignore[no-untyped-call]
        before = "".join(tokens[:place])
        meta.line, meta.column = line + before.count("\n"), len(before) - before.rfind("\n")
        meta.empty = False
        return function(meta, *[each(tokens, line) for each in makers])

    return make


def _kind(terminal: str) -> str:
    """The name of a terminal, also where another grammar has imported it."""
    return terminal.rpartition("__")[2]

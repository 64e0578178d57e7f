"""Reading many lines that are alike: each shape of a line is parsed once, and filled in for the others.

The shape of a line is its text with every name, number and string replaced by what kind of token it is; words of the
grammar stay. Invariant: lines of one shape have one parse tree, and the same functions make values of it. Whatever is
out of the ordinary is left to the grammar, which also says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from lark import Lark, Token, Transformer, Tree
from lark.exceptions import LarkError
from lark.tree import Meta

from authz.errors import AuthFabricError

T = TypeVar("T")

MOST_SHAPES = 4096
"""Shapes that are remembered; the lines of others are left to the grammar."""

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#.*)
    |(?P<string>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")
    |(?P<number>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*)
    |(?P<other>.)""",
    re.VERBOSE,
)
_KINDS = {"space": " ", "string": "\1", "number": "\2", "name": "\3"}
_TERMINALS = frozenset({"NAME", "STRING", "NUMBER", "WS", "COMMENT"})
"""Terminals of the grammar that are no words."""


class OutOfTheOrdinary(Exception):
    """A line that is left to the grammar."""


class _Leaf(NamedTuple):
    """A token of a shape, by its place among the tokens of the line."""

    type: str
    place: int
    text: str
    """What it says, if that is part of the shape; else nothing."""


class _Branch(NamedTuple):
    """What a function makes of its children."""

    call: Callable[..., object]
    children: tuple[_Node, ...]
    place: int
    """Of its first token, if the function asks where it stands; else -1."""


_Node: TypeAlias = _Leaf | _Branch | None


class Shapes(Generic[T]):
    """Makes values of lines by a grammar and a transformer."""

    def __init__(self, parser: Lark, transformer: Transformer[Token, T]) -> None:
        self._parser = parser
        self._transformer = transformer
        patterns = (each.pattern.value for each in parser.terminals if _kind(each.name) not in _TERMINALS)
        self._words = frozenset(word for pattern in patterns for word in re.findall(r"[A-Za-z]+", pattern))
        self._known: dict[str, tuple[_Node, ...]] = {}

    def read(self, line: str, number: int) -> Sequence[object]:
        """The values of the children of the grammar's start in a line. Raises OutOfTheOrdinary where it is unsure."""
        if not line.isprintable():
            raise OutOfTheOrdinary
        tokens = [(found.start(), found[0], found.lastgroup) for found in _TOKEN.finditer(line)]
        words = self._words
        shape = "".join(
            text if kind == "other" or (kind == "name" and text in words) else _KINDS[kind or ""]
            for _, text, kind in tokens
        )
        try:
            nodes = self._known.get(shape)
            if nodes is None:
                nodes = self._parse(line, shape, {start: n for n, (start, *_) in enumerate(tokens)})
            return [_fill(each, tokens, number) for each in nodes]
        except (LarkError, AuthFabricError, RecursionError):
            raise OutOfTheOrdinary from None

    def _parse(self, line: str, shape: str, places: dict[int, int]) -> tuple[_Node, ...]:
        if len(self._known) >= MOST_SHAPES:
            raise OutOfTheOrdinary
        tree = self._parser.parse(line)
        nodes = self._known[shape] = tuple(self._node(each, places) for each in tree.children)
        return nodes

    def _node(self, found: object, places: dict[int, int]) -> _Node:
        if found is None:
            return None
        if isinstance(found, Token):
            text = "" if _kind(found.type) in _TERMINALS else str(found)
            return _Leaf(found.type, places[found.start_pos or 0], text)
        assert isinstance(found, Tree)
        function = getattr(self._transformer, found.data)
        children = tuple(self._node(each, places) for each in found.children)
        asks_where = "meta" in function.visit_wrapper.__name__
        return _Branch(function, children, places[found.meta.start_pos] if asks_where else -1)


def _fill(node: _Node, tokens: Sequence[tuple[int, str, str | None]], line: int) -> object:
    if node is None:
        return None
    if isinstance(node, _Leaf):
        start, text, _ = tokens[node.place]
        return Token(node.type, node.text or text, start, line, start + 1)
    values = [_fill(each, tokens, line) for each in node.children]
    if node.place < 0:
        return node.call(*values)
    meta = Meta()  # type: ignore[no-untyped-call]
    meta.line, meta.column, meta.empty = line, tokens[node.place][0] + 1, False
    return node.call(meta, *values)


def _kind(terminal: str) -> str:
    """The name of a terminal, also where another grammar has imported it."""
    return terminal.rpartition("__")[2]

"""Reading text by a grammar: every language of the fabric reports its errors in the same words."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from functools import cached_property
from importlib.util import cache_from_source
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from authz.errors import InvalidSyntax
from authz.statement_templates import Shapes

T = TypeVar("T")
Scalar: TypeAlias = str | int | float | bool
GRAMMARS = Path(__file__).parent / "predicate"
"""Where grammars find what they import from each other."""

_MOST = 8
_LONGEST = 60
"""Maximum characters of the offending text that a message quotes."""


class Language(Generic[T]):
    """A grammar file with what makes values of its trees; built when first used.

    `words` says how to call a terminal in a message; one that is not named there is shown as it is written.
    """

    def __init__(
        self, grammar: Path, start: str, transformer: Transformer[Token, T], words: Mapping[str, str]
    ) -> None:
        self._grammar = grammar
        self._start = start
        self._transformer = transformer
        self._words = words

    def parse(self, text: str, source: str = "") -> T:
        """The value the text stands for. Raises InvalidSyntax, with `source` as the file's name."""
        try:
            return self._transformer.transform(self._parser.parse(text))
        except UnexpectedInput as error:
            raise self._problem(error, text, source) from None
        except VisitError as error:
            if isinstance(error.orig_exc, InvalidSyntax):
                raise error.orig_exc.within(source) from None
            if isinstance(error.orig_exc, RecursionError):
                raise _too_deep(source) from None
            raise
        except RecursionError:
            raise _too_deep(source) from None

    @cached_property
    def shapes(self) -> Shapes[T]:
        """For texts with many lines that are alike."""
        return Shapes(self._parser, self._transformer)

    @cached_property
    def _parser(self) -> Lark:
        return Lark(
            self._grammar.read_text(encoding="utf-8"),
            start=self._start,
            parser="lalr",
            propagate_positions=True,
            maybe_placeholders=True,
            import_paths=[str(GRAMMARS)],
            cache=self._tables,
        )

    @property
    def _tables(self) -> str | bool:
        """Where the grammar's tables are kept: beside Python's compiled modules, and as trusted as they are."""
        compiled = Path(cache_from_source(str(self._grammar)))
        if sys.dont_write_bytecode or not compiled.parent.is_dir():
            return False
        return str(compiled.with_suffix(f".{self._start}.tables"))

    def _problem(self, error: UnexpectedInput, text: str, source: str) -> InvalidSyntax:
        if isinstance(error, UnexpectedToken):
            found = "the end" if error.token.type == "$END" else _quoted(error.token)
            expected = error.accepts or error.expected
        elif isinstance(error, UnexpectedCharacters):
            found, expected = _quoted(error.char), error.allowed or set()
        else:
            found, expected = "the end", set()
        line, column = (error.line, error.column) if found != "the end" else _end(text)
        return InvalidSyntax(
            f"{found} cannot stand here: expected {self._named(expected)}", line, column, source
        )

    def _named(self, terminals: set[str]) -> str:
        names = sorted({self._shown(name) for name in terminals}, key=lambda name: (name[0] == "`", name))
        most = names[:_MOST] + (["..."] if len(names) > _MOST else [])
        return " or ".join(most) or "nothing more"

    def _shown(self, name: str) -> str:
        # A grammar that imports another sees its terminals as `text__KIND` or `_text__AND`.
        if word := self._words.get(name.rpartition("__")[2].lstrip("_")):
            return word
        patterns = {terminal.name: terminal.pattern.value for terminal in self._parser.terminals}
        return f"`{patterns[name]}`" if name in patterns else "the end"


def _quoted(found: str) -> str:
    """What was met, as a message of one line can show it."""
    if not found.strip():
        return "the end of the line"
    shown = found if len(found) <= _LONGEST else f"{found[:_LONGEST]}..."
    return f"`{shown}`" if shown.isprintable() else f"`{ascii(shown)[1:-1]}`"


def _too_deep(source: str) -> InvalidSyntax:
    return InvalidSyntax("the text is nested too deeply to be read", 1, 1, source)


def constant(token: Token) -> Scalar:
    """The string, number or boolean that a token writes as JSON does."""
    try:
        value: Scalar = json.loads(token)
        if isinstance(value, str):
            value.encode()
    except (ValueError, RecursionError):
        raise InvalidSyntax(f"{token} cannot be read: half a character, or too long", *place(token)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidSyntax(f"{token} is too large for a number", *place(token))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidSyntax(f"{token} is too large: whole numbers have 64 bits", *place(token))
    return value


def place(token: Token) -> tuple[int, int]:
    """The line and column at which a token stands, counted from one."""
    return token.line or 1, token.column or 1


def _end(text: str) -> tuple[int, int]:
    lines = text.rstrip().split("\n")
    return len(lines), len(lines[-1]) + 1

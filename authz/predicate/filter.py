"""Filters: what subscribers ask for and policies force, as text about names; read into the one algebra.

`parse_filter` gives a predicate about `event.<name>`, and `write_filter` the text of one. What it means for one type is
said by `pubsub_core.types.bind_filter`. A parameter such as `$plate` stands for a value that is known only when the
filter is put to use.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path as FilePath
from typing import TypeAlias

from lark import Token, Transformer, v_args

from authz.errors import InvalidPredicate, InvalidSyntax
from authz.predicate import (
    TRUE,
    And,
    AnyComparison,
    Contains,
    Equal,
    Exists,
    Glob,
    In,
    Not,
    Or,
    Order,
    Path,
    Predicate,
    Prefix,
    Regex,
    Relate,
    Scalar,
    Suffix,
    strict,
)
from authz.predicate.terms import OrderName
from authz.syntax import Language, constant, place

EVENT = "event"
PARAMETER = "parameter"
"""The root of paths that stand for parameters."""
USER = "user"
ROOTS = frozenset({EVENT, USER, "sub", "context", "subject"})
"""Words that rules begin a path with; a filter knows events only."""

MAX_FILTER = 8192
"""Maximum characters that a filter may have."""
SHORT = 512
"""Maximum characters of a short filter: more short ones are remembered than long ones."""

Operand: TypeAlias = Scalar | Path


def parse_filter(text: str, source: str = "") -> Predicate:
    """The predicate, by names, that the text stands for; empty text lets everything through. Raises InvalidSyntax."""
    if len(text) > MAX_FILTER:
        problem = f"a filter must have at most {MAX_FILTER:,} characters, and this one has {len(text):,}"
        raise InvalidSyntax(problem, 1, 1, source)
    return _read_long(text, source) if len(text) > SHORT else _read(text, source)


def _parse(text: str, source: str) -> Predicate:
    return opening(_LANGUAGE.parse(text, source))


def opening(predicate: Predicate) -> Predicate:
    """A condition by which something is let through: `NOT` of a comparison with what is missing is false too."""
    return strict(predicate, _there)


_read = lru_cache(maxsize=4096)(_parse)
"""A subscription's filter is read several times on its way, and the same one comes from many."""
_read_long = lru_cache(maxsize=64)(_parse)


@v_args(inline=True)
class FilterReader(Transformer[Token, Predicate]):
    """From parse tree to predicate; other languages merge it into their own reader under the name `filter`."""

    negated = Not
    glob = Glob
    regex = Regex
    prefix = Prefix
    suffix = Suffix
    contains = Contains

    def everything(self) -> Predicate:
        return TRUE

    def disjunction(self, *terms: Predicate) -> Predicate:
        return Or(terms)

    def both(self, *terms: Predicate) -> Predicate:
        return And(terms)

    def equal(self, path: Path, _: Token, operand: Operand) -> Predicate:
        return _equal(path, operand)

    def unequal(self, path: Path, _: Token, operand: Operand) -> Predicate:
        return _unequal(path, operand)

    def order(self, path: Path, op: Token, operand: Operand) -> Predicate:
        return _order(path, op.value, operand, op)

    def between(self, path: Path, low: Operand, high: Operand) -> Predicate:
        return And((_order(path, ">=", low), _order(path, "<=", high)))

    def among(self, path: Path, *values: Scalar) -> Predicate:
        return In(path, values)

    def exists(self, path: Path, _: Token | None = None) -> Predicate:
        return Exists(path)

    def missing(self, path: Path, _: Token | None = None) -> Predicate:
        return Not(Exists(path))

    def path(self, *names: Token) -> Path:
        words = tuple(map(str, names))
        return Path(EVENT, words[1:] if words[0] == EVENT and len(words) > 1 else words)

    def parameter(self, token: Token) -> Path:
        return Path(PARAMETER, (token[1:],))

    def value(self, token: Token) -> Scalar:
        return read_constant(token)

    def text(self, token: Token) -> str:
        return str(read_constant(token))


def write_filter(predicate: Predicate) -> str:
    """Text that is read back as an equal predicate. Raises InvalidPredicate if filters have no words for it."""
    if (different := _unlike(predicate)) is not None:
        return f"{write_operand(different[0])} != {write_operand(different[1])}"
    match predicate:
        case And(terms=terms):
            return " AND ".join(map(_inner, terms))
        case Or(terms=(_, *_) as terms):
            return " OR ".join(map(_inner, terms))
        case Not(term=Exists(path=path)):
            return f"{write_operand(path)} IS NULL"
        case Not(term=term):
            return f"NOT {_inner(term)}"
    return _comparison(predicate)


def write_operand(operand: Operand) -> str:
    """A constant, an attribute, a parameter, or a term of a rule, as filters have them."""
    if isinstance(operand, Path):
        return _path(operand)
    if isinstance(operand, str) and operand.isprintable():
        return "'" + operand.replace("'", "''") + "'"
    return json.dumps(operand)


def _inner(term: Predicate) -> str:
    joined = isinstance(term, And | Or) and _unlike(term) is None
    return f"({write_filter(term)})" if joined else write_filter(term)


def _unlike(predicate: Predicate) -> tuple[Path, Operand] | None:
    """The two sides of a `!=`, if that is what the predicate says."""
    match predicate:
        case And(terms=(Exists(), Not(term=Equal(path=path, value=value, fold=False)))):
            sides: tuple[Path, Operand] = path, value
        case And(terms=(Exists(), *_, Not(term=Relate(path=path, op="==", other=other)))):
            sides = path, other
        case _:
            return None
    return sides if predicate == _unequal(*sides) else None


def _unequal(path: Path, operand: Operand) -> Predicate:
    """It is another value: so there must be one, on both sides."""
    other = (Exists(operand),) if isinstance(operand, Path) and operand.root != PARAMETER else ()
    return And((Exists(path), *other, Not(_equal(path, operand))))


def _there(test: AnyComparison) -> tuple[Predicate, ...]:
    """That what is compared is there; types of events see to the rest. Terms that are asked for alone are facts."""
    if isinstance(test, Equal) and not test.path.root and test.value is True:
        return ()
    sides = (test.path, test.other) if isinstance(test, Relate) else (test.path,)
    return tuple(Exists(each) for each in sides if each.root != PARAMETER)


def _equal(path: Path, operand: Operand) -> Predicate:
    return Relate(path, "==", operand) if isinstance(operand, Path) else Equal(path, operand)


def _comparison(test: Predicate) -> str:
    match test:
        case Relate(path=path, op="==", other=other):
            return f"{_path(path)} = {_path(other)}"
        case Relate(path=path, op="<" | "<=" | ">" | ">=" as op, other=other):
            return f"{_path(path)} {op} {_path(other)}"
        case Equal(path=Path(root=""), value=True, fold=False):
            return _path(test.path)  # a fact, which needs no `= true`
        case Equal(path=path, value=value, fold=False):
            return f"{_path(path)} = {write_operand(value)}"
        case Order(path=path, op=op, value=value):
            return f"{_path(path)} {op} {write_operand(value)}"
        case In(path=path, values=(_, *_) as values):
            return f"{_path(path)} IN ({', '.join(map(write_operand, values))})"
        case Exists(path=path):
            return f"{_path(path)} IS NOT NULL"
        case Prefix(path=path, value=text, fold=False):
            return f"{_path(path)} STARTS WITH {write_operand(text)}"
        case Suffix(path=path, value=text, fold=False):
            return f"{_path(path)} ENDS WITH {write_operand(text)}"
        case Contains(path=path, value=text, fold=False):
            return f"{_path(path)} CONTAINS {write_operand(text)}"
        case Glob(path=path, pattern=text):
            return f"{_path(path)} LIKE {write_operand(text)}"
        case Regex(path=path, pattern=text):
            return f"{_path(path)} MATCHES {write_operand(text)}"
    raise InvalidPredicate(str(test), "cannot be written as a filter")


def _path(path: Path) -> str:
    if not path.root:
        return str(path)
    if path.root == PARAMETER:
        return f"${path.keys[0]}"
    names = [str(key) for key in path.keys]
    if path.root != EVENT:
        return ".".join([path.root, *(names or ["id"])] if names or path.root != USER else [USER])
    bare = names[0] != USER if len(names) == 1 else names[0] not in ROOTS
    return ".".join(names if bare else [EVENT, *names])


def _order(path: Path, op: OrderName, operand: Operand, token: Token | None = None) -> Predicate:
    if isinstance(operand, Path):
        return Relate(path, op, operand)
    if isinstance(operand, bool):
        where = place(token) if token is not None else (1, 1)
        raise InvalidSyntax(f"`{op}` compares numbers or strings, not booleans", *where)
    return Order(path, op, operand)


def read_constant(token: Token) -> Scalar:
    """The constant that a token writes, strings in either kind of quotes."""
    if token[0] == "'":
        return token[1:-1].replace("''", "'")
    return constant(token.update(value=token.lower()) if token.lower() in ("true", "false") else token)


WORDS = {
    "NAME": "an attribute",
    "STRING": "a 'string'",
    "NUMBER": "a number",
    "PARAMETER": "a $parameter",
    "EQUAL": "`=`",
    "UNEQUAL": "`!=`",
    "ORDER": "`<`, `<=`, `>`, `>=`",
    "TRUE": "`true`",
    "FALSE": "`false`",
    "AND": "`AND`",
    "OR": "`OR`",
    "NOT": "`NOT`",
    "BETWEEN": "`BETWEEN`",
    "IN": "`IN`",
    "STARTS": "`STARTS WITH`",
    "ENDS": "`ENDS WITH`",
    "CONTAINS": "`CONTAINS`",
    "LIKE": "`LIKE`",
    "MATCHES": "`MATCHES`",
    "IS": "`IS`",
    "NULL": "`NULL`",
    "EXISTS": "`EXISTS`",
}

_LANGUAGE = Language(FilePath(__file__).with_name("filter.lark"), "start", FilterReader(), WORDS)

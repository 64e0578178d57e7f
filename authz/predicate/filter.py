"""Filters: what subscribers ask for and policies force, as text about names; read into the one algebra.

`parse_filter` gives a predicate about `event.<name>`. What it means for one type is said by `binding.bind_filter`.
A parameter such as `$plate` stands for a value that is known only when the filter is put to use.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TypeAlias

from lark import Token, Transformer, v_args

from authz.errors import InvalidSyntax
from authz.predicate import (
    TRUE,
    And,
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
)
from authz.predicate.terms import OrderName
from authz.syntax import Language, constant, place

EVENT = "event"
PARAMETER = "parameter"
"""The root of paths that stand for parameters."""

Operand: TypeAlias = Scalar | Path


def parse_filter(text: str, source: str = "") -> Predicate:
    """The predicate, by names, that the text stands for; empty text lets everything through. Raises InvalidSyntax."""
    return _LANGUAGE.parse(text, source)


@v_args(inline=True)
class _Reader(Transformer[Token, Predicate]):
    negated = Not
    glob = Glob
    regex = Regex
    prefix = Prefix
    suffix = Suffix
    contains = Contains
    exists = Exists

    def everything(self) -> Predicate:
        return TRUE

    def disjunction(self, *terms: Predicate) -> Predicate:
        return Or(terms)

    def both(self, *terms: Predicate) -> Predicate:
        return And(terms)

    def equal(self, path: Path, _: Token, operand: Operand) -> Predicate:
        return Relate(path, "==", operand) if isinstance(operand, Path) else Equal(path, operand)

    def unequal(self, path: Path, token: Token, operand: Operand) -> Predicate:
        other = (Exists(operand),) if isinstance(operand, Path) and operand.root == EVENT else ()
        return And((Exists(path), *other, Not(self.equal(path, token, operand))))

    def order(self, path: Path, op: Token, operand: Operand) -> Predicate:
        return _order(path, op.value, operand, op)

    def between(self, path: Path, low: Operand, high: Operand) -> Predicate:
        return And((_order(path, ">=", low), _order(path, "<=", high)))

    def among(self, path: Path, *values: Scalar) -> Predicate:
        return In(path, values)

    def missing(self, path: Path) -> Predicate:
        return Not(Exists(path))

    def path(self, *names: Token) -> Path:
        return Path(EVENT, tuple(map(str, names)))

    def parameter(self, token: Token) -> Path:
        return Path(PARAMETER, (token[1:],))

    def value(self, token: Token) -> Scalar:
        return _constant(token)

    def text(self, token: Token) -> str:
        return str(_constant(token))


def _order(path: Path, op: OrderName, operand: Operand, token: Token | None = None) -> Predicate:
    if isinstance(operand, Path):
        return Relate(path, op, operand)
    if isinstance(operand, bool):
        where = place(token) if token is not None else (1, 1)
        raise InvalidSyntax(f"`{op}` compares numbers or strings, not booleans", *where)
    return Order(path, op, operand)


def _constant(token: Token) -> Scalar:
    if token[0] == "'":
        return token[1:-1].replace("''", "'")
    return constant(token.update(value=token.lower()) if token.type in ("TRUE", "FALSE") else token)


_WORDS = {
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

_LANGUAGE = Language(FilePath(__file__).with_name("filter.lark"), "start", _Reader(), _WORDS)

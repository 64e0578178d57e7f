"""Conditions as text, for the languages that contain them: what str() of a predicate prints is read as its equal.

Two shorthands are read besides: `a != b` for `exists a and not a == b` (so that it is false, like every other
comparison, when the attribute is missing), and `"x" in list` for `list overlaps ["x"]`.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from lark import Token, Transformer, v_args
from lark.tree import Meta

from authz.errors import InvalidSyntax
from authz.predicate.terms import (
    FALSE,
    TRUE,
    And,
    Cidr,
    Contains,
    Equal,
    EqualDocument,
    Exists,
    Glob,
    In,
    Kind,
    Names,
    Not,
    Or,
    Order,
    OrderName,
    Overlaps,
    Path,
    Predicate,
    Prefix,
    Regex,
    Relate,
    Scalar,
    Subset,
    Suffix,
)
from authz.syntax import constant, place

Json: TypeAlias = object


@v_args(inline=True)
class PredicateReader(Transformer[Token, Predicate]):
    """From parse tree to predicate; other languages merge it into their own reader under the name `text`."""

    negated = Not
    exists = Exists
    among = In
    cidr = Cidr
    glob = Glob
    regex = Regex
    subset = Subset
    overlaps = Overlaps
    names = Names

    def disjunction(self, *terms: Predicate) -> Predicate:
        return Or(terms)

    def conjunction(self, *terms: Predicate) -> Predicate:
        return And(terms)

    def always(self, _: Token) -> Predicate:
        return TRUE

    def never(self, _: Token) -> Predicate:
        return FALSE

    def kind(self, path: Path, kind: Token) -> Predicate:
        return Kind(path, kind.value)

    def equal(self, path: Path, value: Scalar, fold: Token | None) -> Predicate:
        return Equal(path, value, fold is not None)

    def equal_document(self, path: Path, document: Json) -> Predicate:
        return EqualDocument(path, json.dumps(document, ensure_ascii=False))

    def unequal(self, path: Path, value: Scalar) -> Predicate:
        return And((Exists(path), Not(Equal(path, value))))

    @v_args(meta=True, inline=True)
    def order(self, meta: Meta, path: Path, op: Token, value: Scalar) -> Predicate:
        if isinstance(value, bool):
            raise InvalidSyntax(f"`{op}` compares numbers or strings, not booleans", meta.line, meta.column)
        return Order(path, _order(op), value)

    def prefix(self, path: Path, value: str, fold: Token | None) -> Predicate:
        return Prefix(path, value, fold is not None)

    def suffix(self, path: Path, value: str, fold: Token | None) -> Predicate:
        return Suffix(path, value, fold is not None)

    def contains(self, path: Path, value: str, fold: Token | None) -> Predicate:
        return Contains(path, value, fold is not None)

    def same(self, path: Path, other: Path) -> Predicate:
        return Relate(path, "==", other)

    def different(self, path: Path, other: Path) -> Predicate:
        return And((Exists(path), Exists(other), Not(Relate(path, "==", other))))

    def ordered(self, path: Path, op: Token, other: Path) -> Predicate:
        return Relate(path, _order(op), other)

    def member(self, path: Path, other: Path) -> Predicate:
        return Relate(path, "in", other)

    def subset_of(self, path: Path, other: Path) -> Predicate:
        return Relate(path, "subset", other)

    def overlapping(self, path: Path, other: Path) -> Predicate:
        return Relate(path, "overlaps", other)

    def comparable(self, path: Path, other: Path) -> Predicate:
        return Relate(path, "comparable", other)

    def holds(self, value: Scalar, path: Path) -> Predicate:
        return Overlaps(path, (value,))

    def path(self, root: Token, *steps: Token) -> Path:
        if not steps:
            return Path.variable(str(root))
        if len(steps) == 1 and steps[0] == "id":
            return Path(str(root))
        return Path(str(root), tuple(map(_key, steps)))

    def step(self, key: Token) -> Token:
        return key

    def scalar(self, token: Token) -> Scalar:
        return constant(token)

    def text(self, token: Token) -> str:
        return str(constant(token))

    def texts(self, *values: str) -> tuple[str, ...]:
        return values

    def scalars(self, *values: Scalar) -> tuple[Scalar, ...]:
        return values

    def null(self, _: Token) -> Json:
        return None

    def array(self, *values: Json) -> Json:
        return values

    def mapping(self, *entries: tuple[str, Json]) -> Json:
        return dict(entries)

    def entry(self, name: Token, value: Json) -> tuple[str, Json]:
        return str(constant(name)), value


def _key(step: Token) -> str | int:
    if step[0] not in '"-0123456789':
        return str(step)
    key = constant(step)
    if isinstance(key, float):
        raise InvalidSyntax(f"`[{step}]` is no position in a list: write a whole number", *place(step))
    return key


def _order(op: Token) -> OrderName:
    name: OrderName = op.value
    return name


WORDS = {
    "NAME": "a name",
    "STRING": 'a "string"',
    "NUMBER": "a number",
    "ORDER": "`<`, `<=`, `>`, `>=`",
    "KIND": "`string`, `number`, `boolean`, `list`, `object`",
    "IGNORING": "`ignoring case`",
    "AND": "`and`",
    "OR": "`or`",
    "IS": "`is`",
    "IN": "`in`",
    "STARTS": "`starts with`",
    "ENDS": "`ends with`",
    "CONTAINS": "`contains`",
    "LIKE": "`like`",
    "MATCHES": "`matches`",
    "SUBSET": "`subset of`",
    "OVERLAPS": "`overlaps`",
    "NAMES": "`names`",
    "COMPARABLE": "`comparable to`",
}
"""What the terminals of this language are called in messages."""

"""What a condition is: comparisons of attributes, joined by and, or, not. A closed set of frozen values."""

from __future__ import annotations

import json
import re
import typing
from typing import TypeAlias

import msgspec

Scalar: TypeAlias = str | int | float | bool
"""A constant. JSON's null is no constant: an attribute that is null is missing."""

Number: TypeAlias = int | float

KindName: TypeAlias = typing.Literal["string", "number", "boolean", "list", "object"]
OrderName: TypeAlias = typing.Literal["<", "<=", ">", ">="]
RelationName: TypeAlias = typing.Literal["==", "<", "<=", ">", ">=", "in", "subset", "overlaps", "comparable"]

_encode = msgspec.msgpack.Encoder().encode
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fold(fold: bool) -> str:
    return " ignoring case" if fold else ""


def _inner(term: Predicate) -> str:
    return f"({term})" if isinstance(term, (And, Or)) and term.terms else str(term)


class Path(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a value is found: a root such as `subject`, and the keys to follow among its attributes.

    Without keys it is the entity's own name: `Path("subject")` is written `subject.id`, and an attribute that
    happens to be called id, `Path("subject", ("id",))`, is written `subject["id"]`.
    """

    root: str
    keys: tuple[str | int, ...] = ()

    @classmethod
    def variable(cls, name: str) -> Path:
        """A variable of the rule in which a condition stands, written as its bare name. It has no root."""
        return cls("", (name,))

    def __str__(self) -> str:
        if not self.root:
            return ".".join(map(str, self.keys))
        if not self.keys:
            return f"{self.root}.id"
        text = self.root
        for key in self.keys:
            plain = isinstance(key, str) and _PLAIN.fullmatch(key) and (text != self.root or key != "id")
            text += f".{key}" if plain else f"[{_json(key)}]"
        return text


class Comparison(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One test of one attribute. It is false when the attribute is missing or of another type.

    Two comparisons are equal if they are written alike: 1, 1.0 and true are three constants here, though
    Python calls them equal.
    """

    path: Path

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _encode(self) == _encode(other)

    def __hash__(self) -> int:
        return hash(_encode(self))


class Exists(Comparison, frozen=True, tag="exists"):
    """The attribute has a value."""

    def __str__(self) -> str:
        return f"exists {self.path}"


class Kind(Comparison, frozen=True, tag="kind"):
    """The attribute is of this JSON type. A boolean is not a number."""

    kind: KindName

    def __str__(self) -> str:
        return f"{self.path} is {self.kind}"


class Equal(Comparison, frozen=True, tag="eq"):
    """The attribute is this constant; with `fold`, letters match in either case."""

    value: Scalar
    fold: bool = False

    def __str__(self) -> str:
        return f"{self.path} == {_json(self.value)}{_fold(self.fold)}"


class EqualDocument(Comparison, frozen=True, tag="doc"):
    """The attribute is this list or object, given as JSON text; the order of keys does not matter."""

    json: str

    def __str__(self) -> str:
        return f"{self.path} == {self.json}"


class Order(Comparison, frozen=True, tag="ord"):
    """The attribute is a number beside this number, or a string beside this string (by code point)."""

    op: OrderName
    value: Number | str

    def __str__(self) -> str:
        return f"{self.path} {self.op} {_json(self.value)}"


class In(Comparison, frozen=True, tag="in"):
    """The attribute is one of these constants."""

    values: tuple[Scalar, ...]

    def __str__(self) -> str:
        return f"{self.path} in {_json(self.values)}"


class Prefix(Comparison, frozen=True, tag="pre"):
    """The attribute is a string that starts so."""

    value: str
    fold: bool = False

    def __str__(self) -> str:
        return f"{self.path} starts with {_json(self.value)}{_fold(self.fold)}"


class Suffix(Comparison, frozen=True, tag="suf"):
    """The attribute is a string that ends so."""

    value: str
    fold: bool = False

    def __str__(self) -> str:
        return f"{self.path} ends with {_json(self.value)}{_fold(self.fold)}"


class Contains(Comparison, frozen=True, tag="has"):
    """The attribute is a string with this inside."""

    value: str
    fold: bool = False

    def __str__(self) -> str:
        return f"{self.path} contains {_json(self.value)}{_fold(self.fold)}"


class Glob(Comparison, frozen=True, tag="glob"):
    """The attribute is a string of this shape: `*` any text, `?` one character, `[abc]` one of these."""

    pattern: str

    def __str__(self) -> str:
        return f"{self.path} like {_json(self.pattern)}"


class Regex(Comparison, frozen=True, tag="re"):
    """The attribute is a string in which this regular expression is found, anywhere unless it is anchored."""

    pattern: str

    def __str__(self) -> str:
        return f"{self.path} matches {_json(self.pattern)}"


class Cidr(Comparison, frozen=True, tag="cidr"):
    """The attribute is the text of an IP address inside this network."""

    network: str

    def __str__(self) -> str:
        return f"{self.path} in network {_json(self.network)}"


class Subset(Comparison, frozen=True, tag="sub"):
    """The attribute is a list, and each of its elements is one of these. The empty list always is."""

    values: tuple[Scalar, ...]

    def __str__(self) -> str:
        return f"{self.path} subset of {_json(self.values)}"


class Overlaps(Comparison, frozen=True, tag="any"):
    """The attribute is a list, and at least one of its elements is one of these."""

    values: tuple[Scalar, ...]

    def __str__(self) -> str:
        return f"{self.path} overlaps {_json(self.values)}"


class Names(Comparison, frozen=True, tag="names"):
    """The attribute is a list, and an element has one of these names, with or without parameters: `doctor(ann)`."""

    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path} names {_json(self.values)}"


class Relate(Comparison, frozen=True, tag="rel"):
    """The attribute stands in this relation to another; false if either is missing or does not fit.

    Two attributes are comparable if both are of one JSON type.
    """

    op: RelationName
    other: Path

    def __str__(self) -> str:
        return f"{self.path} {_WORDS.get(self.op, self.op)} {self.other}"


_WORDS = {"subset": "subset of", "comparable": "comparable to"}


class And(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="and"):
    """All of these hold; with none, true."""

    terms: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " and ".join(map(_inner, self.terms)) or "true"


class Or(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="or"):
    """At least one of these holds; with none, false."""

    terms: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " or ".join(map(_inner, self.terms)) or "false"


class Not(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="not"):
    """The complement: true of all that the term is not true of, so also where its attribute is missing.

    A negation that somebody has written does not mean that: see `authz.predicate.negation`.
    """

    term: Predicate

    def __str__(self) -> str:
        return f"not {_inner(self.term)}"


AnyComparison: TypeAlias = (
    Exists
    | Kind
    | Equal
    | EqualDocument
    | Order
    | In
    | Prefix
    | Suffix
    | Contains
    | Glob
    | Regex
    | Cidr
    | Subset
    | Overlaps
    | Names
    | Relate
)
Predicate: TypeAlias = AnyComparison | And | Or | Not

TRUE = And(())
FALSE = Or(())


class Literal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A comparison, or its negation."""

    comparison: AnyComparison
    holds: bool = True

    @property
    def predicate(self) -> Predicate:
        return self.comparison if self.holds else Not(self.comparison)

    def __str__(self) -> str:
        return str(self.predicate)


Certificate: TypeAlias = tuple[Literal, ...]
"""A conjunction of literals: it holds of a request if each of them does."""

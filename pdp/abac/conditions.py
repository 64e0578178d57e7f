"""The condition classes of py-abac: the fields each may have, and what each states of an attribute.

A class is a schema and a meaning in one: msgspec checks the fields, `on` gives the predicate. Names and
meanings are py-abac's, also where the names mislead: `AnyNotIn` is true if no element is among the values,
`AllNotIn` if not all are.
"""

from __future__ import annotations

import json
import typing
from typing import Annotated, TypeAlias

import msgspec

from authz.predicate import (
    TRUE,
    And,
    Cidr,
    Contains,
    Equal,
    EqualDocument,
    Exists,
    In,
    Kind,
    Not,
    Or,
    Order,
    Overlaps,
    Path,
    Predicate,
    Prefix,
    Regex,
    Relate,
    Scalar,
    Subset,
    Suffix,
    compile_predicate,
)
from authz.predicate.terms import KindName
from pdp.abac.path import parse_path

Element: TypeAlias = typing.Literal["subject", "resource", "action", "context"]
ROOTS: dict[Element, str] = {
    "subject": "subject",
    "resource": "object",
    "action": "action",
    "context": "context",
}
"""What py-abac calls the elements of a request, and what the fabric does."""


class _Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, tag_field="condition"):
    def on(self, path: Path) -> Predicate:
        """What this condition states of the attribute at `path`."""
        raise NotImplementedError


def _but_not(path: Path, kind: KindName, predicate: Predicate) -> Predicate:
    return And((Kind(path, kind), Not(predicate)))


class _Number(_Condition, frozen=True):
    value: int | float


class Eq(_Number, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Equal(path, self.value)


class Neq(_Number, frozen=True):
    def on(self, path: Path) -> Predicate:
        return _but_not(path, "number", Equal(path, self.value))


class Gt(_Number, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Order(path, ">", self.value)


class Gte(_Number, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Order(path, ">=", self.value)


class Lt(_Number, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Order(path, "<", self.value)


class Lte(_Number, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Order(path, "<=", self.value)


class _Text(_Condition, frozen=True):
    value: str
    case_insensitive: bool = False


class Equals(_Text, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Equal(path, self.value, self.case_insensitive)


class NotEquals(_Text, frozen=True):
    def on(self, path: Path) -> Predicate:
        return _but_not(path, "string", Equal(path, self.value, self.case_insensitive))


class StartsWith(_Text, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Prefix(path, self.value, self.case_insensitive)


class EndsWith(_Text, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Suffix(path, self.value, self.case_insensitive)


# Contains and others exist in both vocabularies; here the words are py-abac's.
class ContainsText(_Text, frozen=True, tag="Contains"):
    def on(self, path: Path) -> Predicate:
        return Contains(path, self.value, self.case_insensitive)


class NotContains(_Text, frozen=True):
    def on(self, path: Path) -> Predicate:
        return _but_not(path, "string", Contains(path, self.value, self.case_insensitive))


class RegexMatch(_Condition, frozen=True):
    value: str

    def on(self, path: Path) -> Predicate:
        return _checked(Regex(path, self.value))


class InNetwork(_Condition, frozen=True, tag="CIDR"):
    value: str

    def on(self, path: Path) -> Predicate:
        return _checked(Cidr(path, self.value))


def _checked(predicate: Predicate) -> Predicate:
    """py-abac takes a bad network and never matches it; here it is refused."""
    compile_predicate(predicate)
    return predicate


class IsIn(_Condition, frozen=True):
    values: tuple[Scalar | list[object] | dict[str, object], ...]

    def on(self, path: Path) -> Predicate:
        scalars = tuple(each for each in self.values if not isinstance(each, (list, dict)))
        documents = tuple(_document(path, each) for each in self.values if isinstance(each, (list, dict)))
        return Or((In(path, scalars), *documents)) if documents else In(path, scalars)


class IsNotIn(IsIn, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Not(super().on(path))


class _Scalars(_Condition, frozen=True):
    values: tuple[Scalar, ...]


class AllIn(_Scalars, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Subset(path, self.values)


class AllNotIn(_Scalars, frozen=True):
    def on(self, path: Path) -> Predicate:
        return _but_not(path, "list", Subset(path, self.values))


class AnyIn(_Scalars, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Overlaps(path, self.values)


class AnyNotIn(_Scalars, frozen=True):
    def on(self, path: Path) -> Predicate:
        return _but_not(path, "list", Overlaps(path, self.values))


class IsEmpty(_Condition, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Subset(path, ())


class IsNotEmpty(_Condition, frozen=True):
    def on(self, path: Path) -> Predicate:
        return _but_not(path, "list", Subset(path, ()))


class EqualsObject(_Condition, frozen=True):
    value: dict[str, object]

    def on(self, path: Path) -> Predicate:
        return _document(path, self.value)


def _document(path: Path, value: object) -> Predicate:
    return EqualDocument(path, json.dumps(value, ensure_ascii=False, sort_keys=True))


class Present(_Condition, frozen=True, tag="Exists"):
    def on(self, path: Path) -> Predicate:
        return Exists(path)


class NotExists(_Condition, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Not(Exists(path))


class Anything(_Condition, frozen=True, tag="Any"):
    def on(self, path: Path) -> Predicate:
        return TRUE


class _Attribute(_Condition, frozen=True):
    ace: Element
    path: str

    @property
    def other(self) -> Path:
        return Path(ROOTS[self.ace], parse_path(self.path))


class EqualsAttribute(_Attribute, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Relate(path, "==", self.other)


class NotEqualsAttribute(_Attribute, frozen=True):
    def on(self, path: Path) -> Predicate:
        return And((Or((Exists(path), Exists(self.other))), Not(Relate(path, "==", self.other))))


class IsInAttribute(_Attribute, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Relate(path, "in", self.other)


class IsNotInAttribute(_Attribute, frozen=True):
    def on(self, path: Path) -> Predicate:
        return _but_not(self.other, "list", Relate(path, "in", self.other))


class AllInAttribute(_Attribute, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Relate(path, "subset", self.other)


class AllNotInAttribute(_Attribute, frozen=True):
    def on(self, path: Path) -> Predicate:
        return And((Kind(path, "list"), _but_not(self.other, "list", Relate(path, "subset", self.other))))


class AnyInAttribute(_Attribute, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Relate(path, "overlaps", self.other)


class AnyNotInAttribute(_Attribute, frozen=True):
    def on(self, path: Path) -> Predicate:
        return And((Kind(path, "list"), _but_not(self.other, "list", Relate(path, "overlaps", self.other))))


class _Several(_Condition, frozen=True):
    values: Annotated[tuple[Condition, ...], msgspec.Meta(min_length=1)]


class AllOf(_Several, frozen=True):
    def on(self, path: Path) -> Predicate:
        return And(tuple(each.on(path) for each in self.values))


class AnyOf(_Several, frozen=True):
    def on(self, path: Path) -> Predicate:
        return Or(tuple(each.on(path) for each in self.values))


class Negation(_Condition, frozen=True, tag="Not"):
    value: Condition

    def on(self, path: Path) -> Predicate:
        return Not(self.value.on(path))


Condition: TypeAlias = (
    Eq
    | Neq
    | Gt
    | Gte
    | Lt
    | Lte
    | Equals
    | NotEquals
    | StartsWith
    | EndsWith
    | ContainsText
    | NotContains
    | RegexMatch
    | InNetwork
    | IsIn
    | IsNotIn
    | AllIn
    | AllNotIn
    | AnyIn
    | AnyNotIn
    | IsEmpty
    | IsNotEmpty
    | EqualsObject
    | Present
    | NotExists
    | Anything
    | EqualsAttribute
    | NotEqualsAttribute
    | IsInAttribute
    | IsNotInAttribute
    | AllInAttribute
    | AllNotInAttribute
    | AnyInAttribute
    | AnyNotInAttribute
    | AllOf
    | AnyOf
    | Negation
)
NAMES = tuple(each.__struct_config__.tag for each in typing.get_args(Condition))
"""Every `condition` there is."""

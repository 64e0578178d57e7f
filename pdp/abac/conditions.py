"""The condition classes of py-abac: the fields each may have, and what each states of an attribute.

A class is a schema and a meaning in one: msgspec checks the fields, `on` gives the predicate. Names and
meanings are py-abac's, also where the names mislead: `AnyNotIn` is true if no element is among the values,
`AllNotIn` if not all are. One thing is not: what is negative fails closed where what it compares is missing or of
another type. `on` is false of that, `in_deny` is true of it, and `in_py_abac` says what py-abac makes of it.
"""

from __future__ import annotations

import json
from typing import Annotated, ClassVar, TypeAlias

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
    negation,
)
from authz.predicate.terms import KindName
from authz.predicate.values import kind
from pdp.abac.path import Element, read_path


class _Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, tag_field="condition"):
    negative: ClassVar[bool] = False
    """Whether it states the opposite of what its class is made from."""

    def positive(self, path: Path) -> Predicate:
        """What it states, or the opposite if it is negative, of the attribute at `path`."""
        raise NotImplementedError

    def opposite(self, path: Path) -> Predicate:
        """The negation of `positive`: false too of what is missing or of another type."""
        return negation(self.positive(path))

    def on(self, path: Path) -> Predicate:
        """What this condition states of the attribute at `path`."""
        return self.opposite(path) if self.negative else self.positive(path)

    def against(self, path: Path) -> Predicate:
        """What `Not` of this condition states."""
        return self.positive(path) if self.negative else self.opposite(path)

    def in_deny(self, path: Path) -> Predicate:
        """What it states in a deny: if it is negative, true of what is missing or of another type."""
        return Not(self.positive(path)) if self.negative else self.positive(path)

    def in_py_abac(self, path: Path) -> Predicate:
        """What py-abac takes it to state."""
        return self.on(path)


class _Number(_Condition, frozen=True):
    value: int | float


class Eq(_Number, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Equal(path, self.value)


class Neq(Eq, frozen=True):
    negative = True


class Gt(_Number, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Order(path, ">", self.value)


class Gte(_Number, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Order(path, ">=", self.value)


class Lt(_Number, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Order(path, "<", self.value)


class Lte(_Number, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Order(path, "<=", self.value)


class _Text(_Condition, frozen=True):
    value: str
    case_insensitive: bool = False


class Equals(_Text, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Equal(path, self.value, self.case_insensitive)


class NotEquals(Equals, frozen=True):
    negative = True


class StartsWith(_Text, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Prefix(path, self.value, self.case_insensitive)


class EndsWith(_Text, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Suffix(path, self.value, self.case_insensitive)


# Contains and others exist in both vocabularies; here the words are py-abac's.
class ContainsText(_Text, frozen=True, tag="Contains"):
    def positive(self, path: Path) -> Predicate:
        return Contains(path, self.value, self.case_insensitive)


class NotContains(ContainsText, frozen=True, tag="NotContains"):
    negative = True


class RegexMatch(_Condition, frozen=True):
    value: str

    def positive(self, path: Path) -> Predicate:
        return _checked(Regex(path, self.value))


class InNetwork(_Condition, frozen=True, tag="CIDR"):
    value: str

    def positive(self, path: Path) -> Predicate:
        return _checked(Cidr(path, self.value))


def _checked(predicate: Predicate) -> Predicate:
    """py-abac takes a bad network and never matches it; here it is refused."""
    compile_predicate(predicate)
    return predicate


class IsIn(_Condition, frozen=True):
    values: tuple[Scalar | list[object] | dict[str, object], ...]

    def positive(self, path: Path) -> Predicate:
        scalars = tuple(each for each in self.values if not isinstance(each, (list, dict)))
        documents = tuple(_document(path, each) for each in self.values if isinstance(each, (list, dict)))
        return Or((In(path, scalars), *documents)) if documents else In(path, scalars)

    def opposite(self, path: Path) -> Predicate:
        """It is of a type that one of the values has, and none of them."""
        kinds: dict[KindName, None] = dict.fromkeys(found for each in self.values if (found := kind(each)))
        fitting = tuple(Kind(path, each) for each in kinds) or (Exists(path),)
        return And((fitting[0] if len(fitting) == 1 else Or(fitting), Not(self.positive(path))))


class IsNotIn(IsIn, frozen=True):
    negative = True

    def in_py_abac(self, path: Path) -> Predicate:
        return Not(self.positive(path))


class _Scalars(_Condition, frozen=True):
    values: tuple[Scalar, ...]


class AllIn(_Scalars, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Subset(path, self.values)


class AllNotIn(AllIn, frozen=True):
    negative = True


class AnyIn(_Scalars, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Overlaps(path, self.values)


class AnyNotIn(AnyIn, frozen=True):
    negative = True


class IsEmpty(_Condition, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Subset(path, ())


class IsNotEmpty(IsEmpty, frozen=True):
    negative = True

    # A statement about what is there: what is missing escapes it in a deny too.
    def in_deny(self, path: Path) -> Predicate:
        return self.on(path)


class EqualsObject(_Condition, frozen=True):
    value: dict[str, object]

    def positive(self, path: Path) -> Predicate:
        return _document(path, self.value)


def _document(path: Path, value: object) -> Predicate:
    return EqualDocument(path, json.dumps(value, ensure_ascii=False, sort_keys=True))


class Present(_Condition, frozen=True, tag="Exists"):
    def positive(self, path: Path) -> Predicate:
        return Exists(path)


class NotExists(Present, frozen=True, tag="NotExists"):
    negative = True


class Anything(_Condition, frozen=True, tag="Any"):
    def positive(self, path: Path) -> Predicate:
        return TRUE


class _Attribute(_Condition, frozen=True):
    ace: Element
    path: str

    @property
    def other(self) -> Path:
        return read_path(self.ace, self.path)


class EqualsAttribute(_Attribute, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Relate(path, "==", self.other)


class NotEqualsAttribute(EqualsAttribute, frozen=True):
    negative = True

    def in_py_abac(self, path: Path) -> Predicate:
        return And((Or((Exists(path), Exists(self.other))), Not(self.positive(path))))


class IsInAttribute(_Attribute, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Relate(path, "in", self.other)


class IsNotInAttribute(IsInAttribute, frozen=True):
    negative = True

    def in_py_abac(self, path: Path) -> Predicate:
        return And((Kind(self.other, "list"), Not(self.positive(path))))


class AllInAttribute(_Attribute, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Relate(path, "subset", self.other)


class AllNotInAttribute(AllInAttribute, frozen=True):
    negative = True


class AnyInAttribute(_Attribute, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Relate(path, "overlaps", self.other)


class AnyNotInAttribute(AnyInAttribute, frozen=True):
    negative = True


class _Several(_Condition, frozen=True):
    values: Annotated[tuple[Condition, ...], msgspec.Meta(min_length=1)]


class AllOf(_Several, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return And(tuple(each.on(path) for each in self.values))

    def opposite(self, path: Path) -> Predicate:
        return Or(tuple(each.against(path) for each in self.values))

    def in_deny(self, path: Path) -> Predicate:
        return And(tuple(each.in_deny(path) for each in self.values))

    def in_py_abac(self, path: Path) -> Predicate:
        return And(tuple(each.in_py_abac(path) for each in self.values))


class AnyOf(_Several, frozen=True):
    def positive(self, path: Path) -> Predicate:
        return Or(tuple(each.on(path) for each in self.values))

    def opposite(self, path: Path) -> Predicate:
        return And(tuple(each.against(path) for each in self.values))

    def in_deny(self, path: Path) -> Predicate:
        return Or(tuple(each.in_deny(path) for each in self.values))

    def in_py_abac(self, path: Path) -> Predicate:
        return Or(tuple(each.in_py_abac(path) for each in self.values))


class Negation(_Condition, frozen=True, tag="Not"):
    value: Condition

    def positive(self, path: Path) -> Predicate:
        return self.value.against(path)

    def opposite(self, path: Path) -> Predicate:
        return self.value.on(path)

    def in_deny(self, path: Path) -> Predicate:
        return Not(self.value.on(path))

    def in_py_abac(self, path: Path) -> Predicate:
        return Not(self.value.in_py_abac(path))


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

"""What a capability is for: grants of rights over resources, and what two authorities have in common.

Invariants (each a property in the tests): the intersection permits nothing that either side does not; it is
commutative, associative and idempotent, by equality, because every part is kept in a normal form; one
authority covers another exactly if their intersection is the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from authz.predicate import Predicate
from authz.spki import content
from authz.spki.condition import Rate, Window, conjoin, possible
from authz.spki.errors import InvalidCapability
from authz.spki.resource import Kind, Resource, Right

MAX_GRANTS = 32
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_T = TypeVar("_T")


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Some rights over some resources, seeing some attributes, as long as all conditions hold."""

    resource: Resource
    rights: frozenset[Right] | None = None
    """None stands for `*`: all there are over the resource."""
    attributes: frozenset[str] | None = None
    """The attributes of an event that may be seen or set; None stands for `*`."""
    where: tuple[Predicate, ...] = ()
    """Conditions on the content. They bind even where the attribute they test may not be seen."""
    windows: frozenset[Window] = frozenset()
    rates: frozenset[Rate] = frozenset()

    def __post_init__(self) -> None:
        kind = self.resource.kind
        foreign = (self.rights or frozenset()) - kind.rights
        if foreign:
            right = min(foreign)
            raise InvalidCapability("action", f"`{right}` is a right over a {right.kind}, not over a {kind}")
        if self.attributes is not None and kind is not Kind.TYPE:
            raise InvalidCapability("attributes", f"must not stand with a {kind}: only event types have them")
        for name in self.attributes or ():
            _check_attribute(name)
        content.check(kind, self.where)
        if self.windows != conjoin(self.windows) or self.rates != conjoin(self.rates):
            raise InvalidCapability("when", "must be in normal form: make the grant with `Grant.of`")

    @classmethod
    def of(
        cls,
        resource: Resource,
        rights: Iterable[Right] | None = None,
        attributes: Iterable[str] | None = None,
        where: Iterable[Predicate] = (),
        conditions: Iterable[Window | Rate] = (),
    ) -> Grant:
        """Make a grant in normal form. Raises InvalidCapability if it could never permit anything."""
        conditions = tuple(conditions)
        grant = _normal(
            resource,
            None if rights is None else frozenset(rights),
            None if attributes is None else frozenset(attributes),
            where,
            (each for each in conditions if isinstance(each, Window)),
            (each for each in conditions if isinstance(each, Rate)),
        )
        if grant is None:
            raise InvalidCapability(
                "authority", "grants nothing: its conditions exclude each other, or a list is empty"
            )
        return grant

    def intersect(self, other: Grant) -> Grant | None:
        """What both permit; None if nothing."""
        resource = self.resource.intersect(other.resource)
        if resource is None:
            return None
        rights = _common(self.rights, other.rights)
        return _normal(
            resource,
            rights if rights is None else rights & resource.kind.rights,
            _common(self.attributes, other.attributes),
            (*self.where, *other.where),
            self.windows | other.windows,
            self.rates | other.rates,
        )

    def covers(self, other: Grant) -> bool:
        return self.intersect(other) == other

    def allows(self, right: Right) -> bool:
        """Whether it is about this right, over whatever resource, conditions aside."""
        return self.resource.kind in (right.kind, Kind.ANY) and (self.rights is None or right in self.rights)

    def gives(self, right: Right, name: str) -> bool:
        """Whether it is about this right over this resource, conditions aside."""
        return (self.rights is None or right in self.rights) and self.resource.matches(right.kind, name)


class Authority(msgspec.Struct, frozen=True, array_like=True):
    """What any of its grants permits. None of them covers another."""

    grants: tuple[Grant, ...]

    def __post_init__(self) -> None:
        if not self.grants or self.grants != _maximal(self.grants):
            raise InvalidCapability(
                "authority", "must hold grants in normal form: make it with `Authority.of`"
            )

    @classmethod
    def of(cls, *grants: Grant) -> Authority:
        return cls(_maximal(grants))

    def intersect(self, other: Authority) -> Authority | None:
        """What both permit; None if nothing. Raises InvalidCapability if it takes too many grants to say."""
        pairs = (mine.intersect(its) for mine in self.grants for its in other.grants)
        common = _maximal(grant for grant in pairs if grant is not None)
        return Authority(common) if common else None

    def covers(self, other: Authority) -> bool:
        """Whether all that the other permits is permitted here, grant by grant."""
        return all(any(mine.covers(its) for mine in self.grants) for its in other.grants)

    def select(self, right: Right, name: str) -> tuple[Grant, ...]:
        """The grants of this right over this resource, each with its own conditions."""
        return tuple(grant for grant in self.grants if grant.gives(right, name))


def _normal(
    resource: Resource,
    rights: frozenset[Right] | None,
    attributes: frozenset[str] | None,
    where: Iterable[Predicate],
    windows: Iterable[Window],
    rates: Iterable[Rate],
) -> Grant | None:
    """The grant of these parts; None if one of them is empty, for then the whole is."""
    terms, hours = content.conjoin(tuple(where)), conjoin(windows)
    if terms is None or not possible(hours) or rights == frozenset() or attributes == frozenset():
        return None
    return Grant(resource, rights, attributes, terms, hours, conjoin(rates))


def _maximal(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    """The grants that no other covers, in the one order."""
    kept: list[Grant] = []
    for grant in grants:
        if any(other.covers(grant) for other in kept):
            continue
        kept = [other for other in kept if not grant.covers(other)]
        kept.append(grant)
        if len(kept) > MAX_GRANTS:
            raise InvalidCapability("authority", f"takes more than {MAX_GRANTS} grants: split the capability")
    return tuple(sorted(kept, key=_encode))


def _common(mine: frozenset[_T] | None, its: frozenset[_T] | None) -> frozenset[_T] | None:
    if mine is None or its is None:
        return its if mine is None else mine
    return mine & its


def _check_attribute(name: str) -> None:
    if not name or not name.isprintable() or name != name.strip() or name == "*":
        raise InvalidCapability("attributes", f"{name!r} must be a printable name without spaces at its ends")

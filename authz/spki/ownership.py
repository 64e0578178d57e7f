"""Who owns what: the roots of all authority. An owner can grant only what it owns."""

from __future__ import annotations

from collections.abc import Iterable

from authz.crypto import PublicKey
from authz.spki.authority import Authority, Grant
from authz.spki.capability import Capability
from authz.spki.errors import InvalidCapability
from authz.spki.resource import Kind, Resource

_KINDS = (Kind.NETWORK, Kind.TYPE, Kind.OBJECT)


class Owners:
    """The owner of each resource: the key given for the longest pattern that matches it.

    So whoever owns `uk.*` owns all of it but what lies below another's `uk.gov.pito.*`.
    """

    def __init__(self, entries: Iterable[tuple[Resource, PublicKey]]) -> None:
        self._owner: dict[Resource, PublicKey] = {}
        for resource, key in entries:
            for each in _by_kind(resource):
                if self._owner.setdefault(each, key) != key:
                    raise InvalidCapability(each.kind, f"`{each.pattern}` must have one owner, not two")
        self._roots = {key: self._root(key) for key in set(self._owner.values())}

    def root(self, key: PublicKey) -> Capability | None:
        """What a key holds as owner: the capability every chain that starts with it is reduced against."""
        return self._roots.get(key)

    def owner(self, kind: Kind, name: str) -> PublicKey | None:
        """Whose this resource is; None if nobody is known to own it."""
        found = [each for each in self._owner if each.matches(kind, name)]
        return self._owner[max(found, key=lambda each: len(each.pattern))] if found else None

    def entries(self, kind: Kind) -> tuple[tuple[str, PublicKey], ...]:
        """The patterns of one kind, and who owns what they match."""
        return tuple((each.pattern, key) for each, key in self._owner.items() if each.kind is kind)

    def _root(self, key: PublicKey) -> Capability:
        owned = [resource for resource, owner in self._owner.items() if owner == key]
        return Capability(
            key, key, True, Authority.of(*(Grant.of(self._less_others(each, key)) for each in owned))
        )

    def _less_others(self, resource: Resource, key: PublicKey) -> Resource:
        others = (
            other.pattern
            for other, owner in self._owner.items()
            if owner != key and other.kind is resource.kind
        )
        return resource.less(*others)


def _by_kind(resource: Resource) -> tuple[Resource, ...]:
    if resource.exceptions:
        raise InvalidCapability(resource.kind, "an owner is given for a pattern without exceptions")
    if resource.kind is Kind.ANY:
        return tuple(Resource(kind, "*") for kind in _KINDS)
    return (resource,)

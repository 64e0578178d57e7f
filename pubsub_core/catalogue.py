"""The event types known at one place: verified definitions, their versions and their sub-types.

Invariant: whatever is in the catalogue was verified against what was in it before, so a definition is as good as
its owner's signature whoever brought it; and what its owner has taken out since it was signed is not in it, in whatever
order the two are heard of.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from authz.spki import Revocations
from pubsub_core.errors import InvalidType, TypeRefused, UnknownType
from pubsub_core.event_type import Attribute, EventType, check_distinct
from pubsub_core.type_signature import SignedType


class Catalogue:
    """Types by UUID, by version and by name."""

    def __init__(self) -> None:
        self._signed: dict[str, SignedType] = {}
        self._newest: dict[str, EventType] = {}
        self.revision = 0
        """Grows with every change, for those who keep what they found here."""
        self._names: dict[str, str] = {}
        self._children: dict[str, set[str]] = {}
        self._attributes: dict[str, Mapping[str, Attribute]] = {}
        self._by_name: dict[str, Mapping[str, Attribute]] = {}
        self._called: dict[str, dict[str, set[str]]] = {}
        self._taken_out: dict[tuple[str, str], float] = {}
        self.on_accept: list[Callable[[EventType], None]] = []
        """Called with each definition taken in, before anybody can use it."""

    def accept(self, signed: SignedType, at: float, revocations: Revocations | None = None) -> EventType:
        """Take a definition in, if it was rightly made. Raises TypeRefused; one known already changes nothing."""
        definition = signed.definition
        known = self._signed.get(definition.version)
        if known is not None:
            if known.definition != definition:
                raise TypeRefused(definition.name, "there is another definition under its version's UUID")
            return definition
        if signed.at <= self._taken_out.get((definition.owner, definition.name), -1.0):
            raise TypeRefused(
                definition.name,
                "its owner took it out after it was signed: it must be signed anew to come back",
            )
        previous, parent = self._find(definition.previous), None
        if definition.parent is not None:
            parent = self._find(definition.parent.version)
        signed.verify(previous, parent, at, revocations or Revocations())
        self._check_identity(definition)
        self._add(signed, definition)
        return definition

    def __iter__(self) -> Iterator[SignedType]:
        """All definitions, each after those it builds on."""
        return iter(tuple(self._signed.values()))

    def __contains__(self, version: object) -> bool:
        return version in self._signed

    def version(self, version: str) -> EventType:
        """The definition of this version. Raises UnknownType."""
        try:
            return self._signed[version].definition
        except KeyError:
            raise UnknownType(version) from None

    def newest(self, id_: str) -> EventType:
        """The newest version of a type, by its UUID. Raises UnknownType."""
        try:
            return self._newest[id_]
        except KeyError:
            raise UnknownType(id_) from None

    def named(self, name: str) -> EventType:
        """The newest version of the type of this name. Raises UnknownType."""
        if name not in self._names:
            raise UnknownType(name)
        return self._newest[self._names[name]]

    def attributes(self, version: str) -> Mapping[str, Attribute]:
        """All attributes of a version by UUID, inherited ones first. Raises UnknownType."""
        self.version(version)
        return self._attributes[version]

    def names(self, version: str) -> Mapping[str, Attribute]:
        """All attributes of a version by name. Raises UnknownType."""
        self.version(version)
        return self._by_name[version]

    def ever_called(self, id_: str, names: Iterable[str]) -> set[str]:
        """The UUIDs of what any version of a type, or of those it extends, has called by one of these names."""
        called = [self._called[each.id] for each in self.lineage(id_)]
        return {each for known in called for name in names for each in known.get(name, ())}

    def retyped(self, version: str, attributes: Collection[str]) -> frozenset[str]:
        """The other versions of the same type by which one of these attributes, by UUID, has values of another kind."""
        own, id_ = self.attributes(version), self.version(version).id
        kinds = {each: own[each].type for each in attributes if each in own}
        others = {v: self._attributes[v] for v, signed in self._signed.items() if signed.definition.id == id_}
        return frozenset(
            v
            for v, found in others.items()
            if any(a in found and found[a].type is not k for a, k in kinds.items())
        )

    def lineage(self, id_: str) -> tuple[EventType, ...]:
        """A type after all those it extends, newest versions, the furthest first."""
        found = [self.newest(id_)]
        while (parent := found[-1].parent) is not None:
            found.append(self.newest(parent.id))
        return tuple(reversed(found))

    def signed(self, version: str) -> tuple[SignedType, ...]:
        """A version's definition after all those it builds on, as they were signed. Raises UnknownType."""
        definition = self.version(version)
        before: tuple[SignedType, ...] = ()
        if definition.previous in self._signed:
            before = self.signed(definition.previous)
        if definition.parent is not None:
            before = (*self.signed(definition.parent.version), *before)
        return (*dict.fromkeys(before), self._signed[version])

    def family(self, id_: str) -> tuple[EventType, ...]:
        """A type and all its sub-types, newest versions, each before those that extend it."""
        found = [self.newest(id_)]
        for each in found:
            found += [self._newest[child] for child in sorted(self._children.get(each.id, ()))]
        return tuple(found)

    def take_out(self, owner: str, name: str, before: float, at: float) -> None:
        """Forget what this owner's type of this name was up to `before`, whether it is known already or comes later.

        What was signed afterwards stays, as far as it holds by itself. Raises TypeRefused while others extend the type.
        """
        key = owner, name
        known = [each for each in self if (each.definition.owner, each.definition.name) == key]
        fallen = any(each.at <= before for each in known)
        if fallen:
            self._remove(known[0].definition.id)
        self._taken_out[key] = max(self._taken_out.get(key, -1.0), before)
        for each in known if fallen else ():
            with contextlib.suppress(TypeRefused):
                self.accept(each, at)

    def _remove(self, id_: str) -> None:
        """Forget a type. Raises TypeRefused while others extend it."""
        definition = self.newest(id_)
        if self._children.get(id_):
            raise TypeRefused(definition.name, "other types extend it: remove those first")
        for version in [v for v, signed in self._signed.items() if signed.definition.id == id_]:
            for kept in (self._signed, self._attributes, self._by_name):
                kept.pop(version)
        del self._newest[id_], self._names[definition.name], self._called[id_]
        self.revision += 1
        if definition.parent is not None:
            self._children[definition.parent.id].discard(id_)

    def _find(self, version: str) -> EventType | None:
        return self._signed[version].definition if version in self._signed else None

    def _check_identity(self, definition: EventType) -> None:
        """One UUID and one name, one type and one owner."""
        same_id = self._newest.get(definition.id)
        if same_id is not None and (same_id.owner, same_id.name) != (definition.owner, definition.name):
            raise TypeRefused(definition.name, "its UUID belongs to another type")
        if self._names.get(definition.name, definition.id) != definition.id:
            raise TypeRefused(definition.name, "another type has this name here already")

    def _add(self, signed: SignedType, definition: EventType) -> None:
        inherited: tuple[Attribute, ...] = ()
        if definition.parent is not None:
            inherited = tuple(self._attributes[definition.parent.version].values())
        every = (*inherited, *definition.attributes)
        try:
            check_distinct(every)
        except InvalidType as error:
            raise TypeRefused(definition.name, f"with those it inherits, {error}") from None
        for action in self.on_accept:
            action(definition)
        self._signed[definition.version] = signed
        self._attributes[definition.version] = MappingProxyType({each.id: each for each in every})
        self._by_name[definition.version] = MappingProxyType({each.name: each for each in every})
        called = self._called.setdefault(definition.id, {})
        for each in every:
            called.setdefault(each.name, set()).add(each.id)
        self.revision += 1
        newest = self._newest.get(definition.id)
        if newest is None or definition.previous == newest.version:
            self._newest[definition.id] = definition
            self._names[definition.name] = definition.id
        if definition.parent is not None:
            self._children.setdefault(definition.parent.id, set()).add(definition.id)

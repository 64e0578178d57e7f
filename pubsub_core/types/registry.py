"""The event types known at one place: verified definitions, their versions and their sub-types.

Invariants: whatever is in the catalogue was verified against what was in it before, so a definition is as good as
its owner's signature whoever brought it; what its owner has taken out since it was signed is not in it; types are told
apart by their owners' keys and names; and what a name means, and which version is the newest, do not depend on the
order in which definitions were heard of.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from authz.spki import Notice, Revocations
from pubsub_core.errors import AmbiguousType, InvalidType, TypeRefused, UnknownType
from pubsub_core.types.event_type import Attribute, EventType, check_distinct
from pubsub_core.types.names import Names
from pubsub_core.types.signature import MAX_INSTALL, SignedType


class Catalogue:
    """Types by UUID, by version and by name."""

    def __init__(self, names: Names | None = None) -> None:
        """`names` says whose definitions count here, and which of them a name means; without it, all do."""
        self._trusted = names
        self.revocations = Revocations()
        """What counts against the certificates that definitions rest on."""
        self.revision = 0
        """Grows with every change, for those who keep what they found here."""
        self._taken_out: dict[tuple[str, str], float] = {}
        self._fallen: dict[str, SignedType] = {}
        """What was here, and rests on certificates that do not hold now."""
        self.on_accept: list[Callable[[EventType], None]] = []
        """Called with each definition taken in, before anybody can use it."""
        self._clear()

    def _clear(self) -> None:
        self._signed: dict[str, SignedType] = {}
        self._versions: dict[str, dict[str, SignedType]] = {}
        self._newest: dict[str, EventType] = {}
        self._standing: dict[str, dict[str, int]] = {}
        """For each name, the types that are called so by those who are trusted with it, and how well."""
        self._children: dict[str, set[str]] = {}
        self._attributes: dict[str, Mapping[str, Attribute]] = {}
        self._by_name: dict[str, Mapping[str, Attribute]] = {}
        self._called: dict[str, dict[str, set[str]]] = {}

    def accept(self, signed: SignedType, at: float) -> EventType:
        """Take a definition in, if it was rightly made. Raises TypeRefused.

        Of one that is known already, only new certificates for its name count.
        """
        definition = signed.definition
        known = self._signed.get(definition.version)
        if known is not None:
            if known.definition != definition:
                raise TypeRefused(definition.name, "there is another definition under its version's UUID")
            self._renew(known, signed, at)
            return definition
        if signed.at <= self._taken_out.get((definition.owner, definition.name), -1.0):
            raise TypeRefused(
                definition.name,
                "its owner took it out after it was signed: it must be signed anew to come back",
            )
        previous, parent = self._find(definition.previous), None
        if definition.parent is not None:
            parent = self._find(definition.parent.version)
        signed.verify(previous, parent, at, self.revocations)
        standing = self._stands(signed, at)
        if standing is None and parent is None and definition.id not in self._newest:
            raise TypeRefused(
                definition.name,
                f"its owner `{definition.owner}` is not trusted with this name here: whoever is issues a"
                " capability to `define` it, or `--names` says whose it is",
            )
        self._add(signed, definition)
        self._rise(definition, standing)
        return definition

    @property
    def rests_on_certificates(self) -> bool:
        """Whether anything here counts only while somebody's certificates do."""
        return any(each.rests_on_certificates for each in (*self._signed.values(), *self._fallen.values()))

    def heed(self, notice: Notice, at: float) -> None:
        """Heed a revocation from now on. Raises InvalidSignature."""
        self.revocations.accept(notice)
        self.revocations.forget(at)

    def review(self, at: float) -> bool:
        """Look again at what rests on certificates; what does not hold is left out, with all that builds on it.

        Says whether anything has changed.
        """
        return self.rests_on_certificates and self._look_again(at)

    def trust(self, names: Names, at: float) -> bool:
        """Use these names from now on; returns whether the meaning of a known name has changed."""
        self._trusted = names
        return self._look_again(at)

    def _look_again(self, at: float) -> bool:
        before, revision = (self._signed.keys(), self._standing), self.revision
        waiting, left = [*self._signed.values(), *self._fallen.values()], 0
        self._clear()
        while len(waiting) != left:  # each after those it builds on
            left = len(waiting)
            waiting = [each for each in waiting if not self._holds(each, at)]
        self._fallen = {each.definition.version: each for each in waiting}
        changed = (self._signed.keys(), self._standing) != before
        self.revision = revision + changed
        return changed

    def _holds(self, signed: SignedType, at: float) -> bool:
        try:
            self.accept(signed, at)
        except TypeRefused:
            return False
        return True

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

    def knows(self, id_: str) -> bool:
        """Whether there is a type of this UUID."""
        return id_ in self._newest

    def newest(self, id_: str) -> EventType:
        """The newest version of a type, by its UUID. Raises UnknownType."""
        try:
            return self._newest[id_]
        except KeyError:
            raise UnknownType(id_) from None

    def named(self, name: str) -> EventType:
        """The newest version of the type that this name means here. Raises UnknownType, AmbiguousType."""
        standing = self._standing.get(name, {})
        best = [id_ for id_, each in standing.items() if each == max(standing.values())]
        if not best:
            raise UnknownType(name)
        if len(best) > 1:
            raise AmbiguousType(name, sorted(self._newest[id_].owner for id_ in best))
        return self._newest[best[0]]

    def label(self, definition: EventType) -> str:
        """What a type is called here: by its name if that means it, and by its full name otherwise."""
        with contextlib.suppress(UnknownType):
            if self.named(definition.name).id == definition.id:
                return definition.name
        return definition.full_name

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

        What was signed afterwards stays, as far as it holds by itself. What extends the type goes with it.
        """
        key = owner, name
        self._taken_out[key] = max(self._taken_out.get(key, -1.0), before)
        known = tuple(self)
        fallen = [each for each in known if (each.definition.owner, each.definition.name) == key]
        if not any(each.at <= before for each in fallen):
            return
        self._remove(fallen[0].definition.id)
        for each in known:
            if each.definition.version not in self._signed:
                self._holds(each, at)

    def extended_by(self, id_: str) -> frozenset[str]:
        """The UUIDs of the types that extend this one."""
        return frozenset(self._children.get(id_, ()))

    def _remove(self, id_: str) -> None:
        """Forget a type, and all that extend it."""
        for child in self.extended_by(id_):
            self._remove(child)
        definition = self.newest(id_)
        for version in self._versions.pop(id_):
            for kept in (self._signed, self._attributes, self._by_name):
                kept.pop(version)
        del self._newest[id_], self._called[id_]
        self._standing.get(definition.name, {}).pop(id_, None)
        self.revision += 1
        if definition.parent is not None:
            self._children[definition.parent.id].discard(id_)

    def _find(self, version: str) -> EventType | None:
        return self._signed[version].definition if version in self._signed else None

    def _stands(self, signed: SignedType, at: float) -> int | None:
        return 0 if self._trusted is None else self._trusted.standing(signed, at, self.revocations)

    def _rise(self, definition: EventType, standing: int | None) -> bool:
        """Let a type stand no lower than this among those of its name; says whether that is news."""
        if standing is None:
            return False
        known = self._standing.setdefault(definition.name, {})
        if standing <= known.get(definition.id, -1):
            return False
        known[definition.id] = standing
        return True

    def _renew(self, known: SignedType, signed: SignedType, at: float) -> None:
        """Take in the certificates by which a known definition may have its name, if they give it more than before."""
        new = tuple(each for each in signed.install if each not in known.install)
        if new and self._rise(known.definition, self._stands(replace(known, install=new), at)):
            every = (*new, *known.install)[:MAX_INSTALL]
            renewed = replace(known, install=every)
            definition = known.definition
            self._signed[definition.version] = self._versions[definition.id][definition.version] = renewed
            self.revision += 1

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
        versions = self._versions.setdefault(definition.id, {})
        versions[definition.version] = signed
        self._newest[definition.id] = _newest(versions)
        self._attributes[definition.version] = MappingProxyType({each.id: each for each in every})
        self._by_name[definition.version] = MappingProxyType({each.name: each for each in every})
        called = self._called.setdefault(definition.id, {})
        for each in every:
            called.setdefault(each.name, set()).add(each.id)
        self.revision += 1
        if definition.parent is not None:
            self._children.setdefault(definition.parent.id, set()).add(definition.id)


def _newest(versions: Mapping[str, SignedType]) -> EventType:
    """Of the versions that no other was made from, the one whose owner signed last, itself or what it was made from."""
    made_from = {each.definition.previous for each in versions.values()}

    def order(signed: SignedType) -> tuple[float, bool, float, str]:
        owned: SignedType | None = signed
        while owned is not None and owned.signer != owned.definition.owner:
            owned = versions.get(owned.definition.previous)
        definition = signed.definition
        return owned.at if owned else -1.0, bool(definition.previous), signed.at, definition.version

    return max(
        (each for each in versions.values() if each.definition.version not in made_from), key=order
    ).definition

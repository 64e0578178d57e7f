"""What the two sides of a key group must know of an event type: its names, its owner, and who may manage its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from authz import PublicKey
from authz.spki import Kind, Owners, Resource, Verifier
from pubsub_core.keys import Group
from pubsub_core.types import Catalogue, EventType


@dataclass(frozen=True, slots=True)
class KeyedType:
    """An event type whose attributes are sealed."""

    id: str
    name: str
    owner: PublicKey
    names: Mapping[str, str]
    """The name of each attribute, by its UUID."""

    @classmethod
    def of(cls, catalogue: Catalogue, name: str) -> Self:
        """The newest version of the type that this name means. Raises UnknownType."""
        return cls.of_type(catalogue, catalogue.named(name))

    @classmethod
    def of_type(cls, catalogue: Catalogue, definition: EventType) -> Self:
        attributes = catalogue.attributes(definition.version)
        names = {id_: each.name for id_, each in attributes.items()}
        return cls(definition.id, definition.name, definition.owner_key, names)

    def verifier(self) -> Verifier:
        """All authority over a type comes from its owner, whose key is part of its name."""
        return Verifier(Owners([(Resource.of(Kind.TYPE, self.name), self.owner)]))

    def names_in(self, group: Group) -> list[str]:
        """The names by which capabilities speak of a group's attributes; of one it does not know, the UUID."""
        return [self.names.get(attribute, attribute) for attribute in group.attributes]

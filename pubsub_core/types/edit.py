"""Edits of a type: from one version of its definition to the next, each edit a right of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import structs

from authz.spki import Right
from pubsub_core.errors import InvalidType, TypeRefused
from pubsub_core.types.event_type import Attribute, AttributeType, EventType


@dataclass(frozen=True, slots=True)
class Added:
    attribute: Attribute


@dataclass(frozen=True, slots=True)
class Removed:
    attribute: Attribute


@dataclass(frozen=True, slots=True)
class Renamed:
    attribute: Attribute
    """As it was."""
    name: str


@dataclass(frozen=True, slots=True)
class Retyped:
    attribute: Attribute
    """As it was."""
    type: AttributeType


Edit: TypeAlias = Added | Removed | Renamed | Retyped

RIGHTS: Mapping[type[Edit], Right] = {
    Added: Right.ADD_ATTRIBUTE,
    Removed: Right.REMOVE_ATTRIBUTE,
    Renamed: Right.EDIT_ATTRIBUTE_NAME,
    Retyped: Right.EDIT_ATTRIBUTE_TYPE,
}
"""The right that each edit needs."""


def edits(old: EventType, new: EventType) -> tuple[Edit, ...]:
    """What leads from one version to the next. Raises TypeRefused if something else than attributes differs."""
    frame = structs.replace(old, attributes=(), version=new.version, previous=old.version)
    if structs.replace(new, attributes=()) != frame:
        raise TypeRefused(
            new.name, "an edit changes attributes only: name, owner and parent stay as they are"
        )
    changes = tuple(_edits(old, new))
    if any(isinstance(each, Retyped) and each.attribute.id == old.carriage.routed for each in changes):
        raise TypeRefused(new.name, "events are routed by an attribute that is of another type now")
    return changes


def apply(old: EventType, changes: Sequence[Edit]) -> EventType:
    """The next version of a type."""
    attributes = {each.id: each for each in old.attributes}
    for change in changes:
        attribute = change.attribute
        match change:
            case Added():
                attributes[attribute.id] = attribute
            case Removed():
                del attributes[attribute.id]
            case Renamed():
                attributes[attribute.id] = structs.replace(attributes[attribute.id], name=change.name)
            case Retyped():
                attributes[attribute.id] = structs.replace(attributes[attribute.id], type=change.type)
    return structs.replace(old, attributes=tuple(attributes.values()), previous=old.version).as_version()


def find(type_: EventType, name: str) -> Attribute:
    """The type's own attribute of this name. Raises InvalidType."""
    for each in type_.attributes:
        if each.name == name:
            return each
    known = ", ".join(f"`{each.name}`" for each in type_.attributes) or "none"
    raise InvalidType("attributes", f"`{name}` is not one of its own: those are {known}")


def _edits(old: EventType, new: EventType) -> Iterator[Edit]:
    before = {each.id: each for each in old.attributes}
    after = {each.id: each for each in new.attributes}
    for id_, was in before.items():
        now = after.get(id_)
        if now is None:
            yield Removed(was)
            continue
        if now.name != was.name:
            yield Renamed(was, now.name)
        if now.type is not was.type:
            yield Retyped(was, now.type)
    yield from (Added(each) for id_, each in after.items() if id_ not in before)

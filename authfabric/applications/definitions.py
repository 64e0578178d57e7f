"""The types of an application as definitions that nobody has signed yet."""

from __future__ import annotations

from uuid import uuid4

from authfabric.applications.document import Application, TypeSpec
from authz import Identity, PublicKey
from pubsub_core.types import EventType


def definitions(application: Application) -> list[EventType]:
    """A definition for each type, of nobody in particular: what tools need to know of them."""
    nobody = Identity.generate().public
    return [define(each, nobody) for each in application.types.values()]


def define(spec: TypeSpec, owner: PublicKey) -> EventType:
    """The first version of a type."""
    pairs = [(name, each.type) for name, each in spec.attributes.items()]
    return EventType.new(spec.name, owner, pairs, uuid4, routed=spec.routed)

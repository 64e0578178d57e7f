"""The types of an application as definitions that nobody has signed: what tools need to know of them."""

from __future__ import annotations

from uuid import uuid4

from authfabric.applications.document import Application
from authz import Identity
from pubsub_core.types import EventType


def definitions(application: Application) -> list[EventType]:
    """A definition for each type, of nobody in particular."""
    nobody = Identity.generate().public
    return [
        EventType.new(each.name, nobody, [(name, spec.type) for name, spec in each.attributes.items()], uuid4)
        for each in application.types.values()
    ]

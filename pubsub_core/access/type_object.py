"""Types as PDPs know them."""

from __future__ import annotations

from authz import Entity
from pubsub_core.types import Catalogue, EventType


def type_object(catalogue: Catalogue, definition: EventType) -> Entity:
    """A type as PDPs know it: by its name where that means it, otherwise by its full name."""
    return Entity(f"/types/{catalogue.label(definition)}", {"owner": definition.owner, "uuid": definition.id})

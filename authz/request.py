"""What is asked: may this subject do this action to this object, in this context?"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from authz.errors import InvalidRequest

Attributes: TypeAlias = dict[str, object]
"""Attribute names and JSON values."""

MAX_ID_BYTES = 1024

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Entity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Someone or something by name, with the attributes the asker knows."""

    id: str
    attributes: Attributes = {}


class Request(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One question. Attributes and context are what the asker claims; the PDP may know more, and knows better."""

    subject: Entity
    object: Entity
    action: Entity
    context: Attributes = {}

    @classmethod
    def of(
        cls,
        subject: str | Entity,
        object: str | Entity,  # noqa: A002 - the domain's own word
        action: str | Entity,
        context: Attributes | None = None,
    ) -> Request:
        """Make a request from the short form: plain strings stand for entities without attributes."""
        return cls(
            Entity(subject) if isinstance(subject, str) else subject,
            Entity(object) if isinstance(object, str) else object,
            Entity(action) if isinstance(action, str) else action,
            context or {},
        )

    @property
    def key(self) -> bytes | tuple[str, str, str]:
        """Equal for two requests exactly if nothing in them differs; hashable."""
        s, o, a = self.subject, self.object, self.action
        if s.attributes or o.attributes or a.attributes or self.context:
            return _encode(self)
        return (s.id, o.id, a.id)

    def __str__(self) -> str:
        return f"{self.subject.id} {self.action.id} {self.object.id}"

    def validate(self) -> None:
        """Raise InvalidRequest, naming the field, for what no PDP could be asked."""
        for field, entity in (("subject", self.subject), ("object", self.object), ("action", self.action)):
            if not isinstance(entity, Entity):
                raise InvalidRequest(field, f"must be a string or an Entity, not {type(entity).__name__}")
            if not isinstance(entity.id, str):
                raise InvalidRequest(f"{field}.id", f"must be a string, not {type(entity.id).__name__}")
            if not entity.id:
                raise InvalidRequest(f"{field}.id", "must not be empty")
            if len(entity.id) * 4 > MAX_ID_BYTES and len(entity.id.encode()) > MAX_ID_BYTES:
                raise InvalidRequest(f"{field}.id", f"must be at most {MAX_ID_BYTES} bytes long")
            if not isinstance(entity.attributes, dict):
                raise InvalidRequest(f"{field}.attributes", "must be a dictionary of names and JSON values")
        if not isinstance(self.context, dict):
            raise InvalidRequest("context", "must be a dictionary of names and JSON values")

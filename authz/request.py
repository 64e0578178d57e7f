"""What is asked: may this subject do this action to this object, in this context?"""

from __future__ import annotations

from typing import Annotated, NoReturn, TypeAlias

import msgspec

from authz.errors import InvalidRequest

Attributes: TypeAlias = dict[str, object]
"""Attribute names and JSON values."""


class _Nothing(Attributes):
    """The empty attributes that all entities without any share: it can never be filled."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a request cannot be changed: make another one")

    __setitem__ = __ior__ = setdefault = update = _refuse


NOTHING: Attributes = _Nothing()

MAX_BYTES = {"subject": 256, "object": 768, "action": 128}
"""Maximum length of ids, in bytes of UTF-8: every question fits a NATS subject."""

_SHORT = min(MAX_BYTES.values())
NAMES_KEPT = 16_384
"""Maximum names that are remembered as valid: most are asked about again."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Entity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Someone or something by name, with the attributes the asker knows."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BYTES["object"])]
    attributes: Attributes = NOTHING


class Request(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One question. Attributes and context are what the asker claims; the PDP may know more, and knows better."""

    subject: Entity
    object: Entity
    action: Entity
    context: Attributes = NOTHING

    @classmethod
    def of(
        cls,
        subject: str | Entity,
        object: str | Entity,
        action: str | Entity,
        context: Attributes | None = None,
    ) -> Request:
        """Make a request from the short form: plain strings stand for entities without attributes."""
        if type(subject) is type(object) is type(action) is str:
            return cls(Entity(subject), Entity(object), Entity(action), context or NOTHING)
        return cls(_entity(subject), _entity(object), _entity(action), context or NOTHING)

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
        if self.is_plain():
            return
        _validate_entity("subject", self.subject)
        _validate_entity("object", self.object)
        _validate_entity("action", self.action)
        if not isinstance(self.context, dict):
            raise InvalidRequest("context", f"must be a dictionary, not {type(self.context).__name__}")
        if is_relative(self.object.id):
            raise InvalidRequest(
                "object.id", "must not have `.` or `..` as a segment: write the path they lead to"
            )

    def is_plain(self) -> bool:
        """Whether this is the common case that is certainly valid: short ASCII names, no attributes, no context."""
        subject, thing, action = self.subject, self.object, self.action
        try:
            if subject.attributes or thing.attributes or action.attributes or self.context:
                return False
            s, o, a = subject.id, thing.id, action.id
            if not (type(s) is type(o) is type(a) is str and s and o and a):
                return False
            text = f"{s}{a}/{o}"
            return len(text) <= _SHORT and text.isascii() and "/." not in text
        except AttributeError:
            return False


_plain: dict[object, Entity] = {}
"""Entities without attributes by names that any subject, object or action can have."""


def is_relative(path: str) -> bool:
    """Whether a path has `.` or `..` as a segment. Nobody can be asked about one."""
    return not {".", ".."}.isdisjoint(path.split("/"))


def plain_request(subject: str | Entity, thing: str | Entity, action: str | Entity) -> Request | None:
    """The request in its common form, certainly valid: short ASCII names, no attributes, no context; else None."""
    try:
        return Request(_plain[subject], _plain[thing], _plain[action])
    except (KeyError, TypeError):  # a name not seen before, or something that is no name
        return (
            Request.of(subject, thing, action) if all(map(_is_plain_name, (subject, thing, action))) else None
        )


def _is_plain_name(name: object) -> bool:
    """Whether it is certainly a good name; if so, that is remembered."""
    if type(name) is not str or not name or len(name) > _SHORT or not name.isascii() or "/." in f"/{name}":
        return False
    if len(_plain) >= NAMES_KEPT:
        _plain.clear()
    _plain[name] = Entity(name)
    return True


def _entity(given: str | Entity) -> Entity:
    # What only behaves like a string, such as a member of an enumeration, is taken for the text it holds.
    return Entity(str.__str__(given)) if isinstance(given, str) else given


def _validate_entity(field: str, entity: object) -> None:
    if type(entity) is str:
        raise InvalidRequest(field, "must be an Entity, not str: `Request.of` makes one of a string")
    if type(entity) is not Entity:
        raise InvalidRequest(field, f"must be a string or an Entity, not {type(entity).__name__}")
    name = entity.id
    if type(name) is not str:
        raise InvalidRequest(f"{field}.id", f"must be a string, not {type(name).__name__}")
    if not name:
        raise InvalidRequest(f"{field}.id", "must not be empty")
    limit = MAX_BYTES[field]
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(f"{field}.id", "must be Unicode text, without half characters") from None
    if size > limit:
        raise InvalidRequest(f"{field}.id", f"must be at most {limit} bytes long")
    if not isinstance(entity.attributes, dict):
        raise InvalidRequest(
            f"{field}.attributes", f"must be a dictionary, not {type(entity.attributes).__name__}"
        )

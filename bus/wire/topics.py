"""What someone wants to learn from: decisions by the attributes of the request, its object or its subject's roles."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from authz import AuthFabricError, Request
from bus.errors import InvalidScope
from bus.wire.scopes import Kind, Scope, under

NO_ROLES = "none"
"""The topic of requests without roles."""

_FORMS = "use all, prefix:/PATH, object:NAME or roles:NAME,NAME"
_encode = msgspec.msgpack.Encoder().encode


class InvalidTopic(AuthFabricError):
    """A topic whose text is not one of the four forms."""

    def __init__(self, text: str) -> None:
        super().__init__(f"`{text}` is not a topic: {_FORMS}")
        self.text = text


@dataclass(frozen=True, slots=True)
class Topic:
    """Decisions about some objects, or for one set of roles."""

    scope: Scope
    """The domain, a prefix or an object."""
    roles: str = ""
    """The digest of a set of roles; empty for any."""

    @classmethod
    def parse(cls, text: str, domain: str) -> Topic:
        """Read `all`, `prefix:/PATH`, `object:NAME` or `roles:NAME,NAME`. Raises InvalidTopic."""
        word, _, rest = text.partition(":")
        if text == "all":
            return cls(Scope(Kind.DOMAIN, domain))
        if word == "roles" and rest:
            return cls(Scope(Kind.DOMAIN, domain), roles_digest(rest.split(",")))
        try:
            scope = Scope.parse(text, domain)
        except InvalidScope:
            raise InvalidTopic(text) from None
        if scope.kind not in (Kind.PREFIX, Kind.OBJECT) or scope.domain != domain:
            raise InvalidTopic(text)
        return cls(scope)

    def holds(self, request: Request) -> bool:
        """Whether the request is of this topic, in its domain."""
        if self.roles:
            return self.roles == request_roles(request)
        match self.scope.kind:
            case Kind.PREFIX:
                return under(self.scope.object, request.object.id)
            case Kind.OBJECT:
                return self.scope.object == request.object.id
        return True


def roles_digest(names: Sequence[str]) -> str:
    """A short name for a set of roles, the same in whatever order and however often they are listed."""
    return hashlib.blake2b(_encode(sorted(set(names))), digest_size=10).hexdigest()


def request_roles(request: Request) -> str:
    """The digest of the roles that a request lists."""
    roles = request.subject.attributes.get("roles")
    if not isinstance(roles, (list, tuple)) or not all(isinstance(name, str) for name in roles):
        return NO_ROLES
    return roles_digest(roles)

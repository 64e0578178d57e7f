"""What a gateway is told, checked whole before anything starts."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from authz import AuthFabricError
from pep.gateway.entity_types import EntityTypes, InvalidTemplate

MAX_BYTES = 1 << 20
"""Maximum bytes of one request."""

DEFAULT_SUBJECTS = {"user": "{id}"}
DEFAULT_RESOURCES = {"*": "/{type}/{id}"}


class InvalidSettings(AuthFabricError):
    """Settings that cannot be used: `source` and what is wrong there."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"`{source}` cannot be used: {problem}")
        self.source = source


class Jwt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose JSON Web Tokens are accepted. Only asymmetric signatures are."""

    issuer: str
    audience: str
    jwks: str
    """The issuer's keys: a file, or an https address that is read again when a key is not known."""
    subject_claim: str | None = None
    """The claim that names the one subject its bearer may ask about."""
    refresh: Annotated[float, msgspec.Meta(ge=1.0)] = 300.0
    """Seconds after which the issuer's keys are read again: a key that is no longer among them does not count."""


class Caller(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may call, how that is shown, and what it may ask about."""

    name: str
    token_sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | None = None
    """The SHA-256 of a bearer token, in hexadecimal: `authfabric gateway token` makes both."""
    certificate: str | None = None
    """The subject or a subject alternative name of its client certificate."""
    jwt: Jwt | None = None
    subjects: tuple[str, ...] | None = None
    """The types of subjects it may ask about; all if none are named."""
    resources: tuple[str, ...] | None = None
    """The types of resources it may ask about; all if none are named."""
    search: bool = True
    """Whether it may search."""


class GatewaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    base_url: str | None = None
    """Where clients reach it. Discovery names it; the Host header is never used."""
    subjects: dict[str, str] = msgspec.field(default_factory=DEFAULT_SUBJECTS.copy)
    """The template of each type of subject, with {id}, such as `service:{id}`; or the type that it is the same as."""
    resources: dict[str, str] = msgspec.field(default_factory=DEFAULT_RESOURCES.copy)
    """The template of each type of resource, with {id}; `*` with {type} stands for all other types."""
    callers: tuple[Caller, ...] = ()
    anonymous: bool = False
    """Whether whoever reaches the address may ask."""

    def validate(self, source: str) -> None:
        """Raise InvalidSettings, naming the place."""
        if self.base_url is not None and not _is_base(self.base_url):
            raise InvalidSettings(source, f"base_url `{self.base_url}` must be an http or https address")
        for kind, templates in (("subject", self.subjects), ("resource", self.resources)):
            try:
                EntityTypes(kind, templates)
            except InvalidTemplate as error:
                raise InvalidSettings(source, f"{kind}s: {error}") from None
        if not self.callers and not self.anonymous:
            raise InvalidSettings(
                source,
                "nobody may call: name callers (`authfabric gateway token NAME` makes one), or say `anonymous: true`"
                " (`--anonymous`) if whoever reaches the address may ask",
            )
        names = [caller.name for caller in self.callers]
        for caller in self.callers:
            ways = [caller.token_sha256, caller.certificate, caller.jwt]
            if sum(way is not None for way in ways) != 1:
                raise InvalidSettings(
                    source, f"caller `{caller.name}` needs one of token_sha256, certificate and jwt"
                )
            if caller.jwt is not None and caller.jwt.subject_claim is not None:
                types = self.subjects if caller.subjects is None else caller.subjects
                if len(types) != 1 or "*" in types:
                    raise InvalidSettings(
                        source,
                        f"caller `{caller.name}` has a subject_claim: say by `subjects` of which one type it is,"
                        " or a user's token asks about a service of that id",
                    )
            if names.count(caller.name) > 1:
                raise InvalidSettings(source, f"two callers are named `{caller.name}`")


def _is_base(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc) and not parts.query and not parts.fragment

"""The searches of AuthZEN, page by page."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import msgspec

from authz import Entity
from bus.wire import SearchQuery
from pep.enforcer import Enforcer
from pep.errors import SearchRefused
from pep.gateway.callers import Identified
from pep.gateway.entity_types import EntityTypes
from pep.gateway.errors import Refused, UnknownType
from pep.gateway.messages import ActionSearch, PageRequest, ResourceSearch, SubjectSearch, Thing

DEFAULT_LIMIT = 100
MAX_LIMIT = 500
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class _Token(msgspec.Struct, frozen=True, array_like=True):
    """Where a page ended, and of which search: with other parameters it means nothing."""

    search: bytes
    cursor: str


class Searches:
    """Searches among the entities that the PDPs know."""

    def __init__(self, pep: Enforcer, subjects: EntityTypes, resources: EntityTypes) -> None:
        self._pep = pep
        self._subjects = subjects
        self._resources = resources

    async def subject(self, asked: SubjectSearch, caller: Identified) -> dict[str, Any]:
        """Who may do this to that. Raises Refused or InvalidRequest."""
        _allow(caller, asked.subject.type, None, asked.resource.type)
        try:
            known = self._entity(self._resources, asked.resource)
            query = SearchQuery("subject", object=known, action=_action(asked), context=asked.context)
            return await self._things(query, self._subjects, asked.subject.type, asked.page)
        except UnknownType:
            return _empty()

    async def resource(self, asked: ResourceSearch, caller: Identified) -> dict[str, Any]:
        """To what it may be done. Raises Refused or InvalidRequest."""
        _allow(caller, asked.subject.type, asked.subject.id, asked.resource.type)
        try:
            known = self._entity(self._subjects, asked.subject)
            query = SearchQuery("object", subject=known, action=_action(asked), context=asked.context)
            return await self._things(query, self._resources, asked.resource.type, asked.page)
        except UnknownType:
            return _empty()

    async def action(self, asked: ActionSearch, caller: Identified) -> dict[str, Any]:
        """What may be done. Raises Refused or InvalidRequest."""
        _allow(caller, asked.subject.type, asked.subject.id, asked.resource.type)
        try:
            subject = self._entity(self._subjects, asked.subject)
            resource = self._entity(self._resources, asked.resource)
        except UnknownType:
            return _empty()
        query = SearchQuery("action", subject=subject, object=resource, context=asked.context)
        names, page = await self._page(query, asked.page, "")
        return {"results": [{"name": name} for name in names], "page": page}

    async def _things(
        self, query: SearchQuery, types: EntityTypes, sought: str, page: PageRequest
    ) -> dict[str, Any]:
        """A page of entities of one type. Raises UnknownType, Refused or InvalidRequest."""
        query = msgspec.structs.replace(query, under=types.prefix(sought))
        names, following = await self._page(query, page, sought)
        own = types.own(sought)
        found = [each for each in map(types.find, names) if each is not None and each[0] == own]
        return {"results": [{"type": sought, "id": name} for _, name in found], "page": following}

    @staticmethod
    def _entity(types: EntityTypes, thing: Thing) -> Entity:
        return Entity(types.name(thing.type, thing.id), thing.properties)

    async def _page(
        self, query: SearchQuery, page: PageRequest, sought: str
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        try:
            digest = hashlib.blake2b(_encode((query, sought)), digest_size=16).digest()
        except OverflowError as error:
            raise Refused(400, f"a number is too large to be asked about: {error}") from None
        cursor = _cursor(page.token, digest)
        limit = min(page.limit or DEFAULT_LIMIT, MAX_LIMIT)
        try:
            found = await self._pep.search(msgspec.structs.replace(query, limit=limit, cursor=cursor))
        except SearchRefused as error:
            raise Refused(400, error.problem) from None
        following = _text(_Token(digest, found.cursor)) if found.cursor else ""
        return found.found, {"next_token": following}


def _allow(caller: Identified, subject_type: str, subject_id: str | None, resource_type: str) -> None:
    if not caller.caller.search:
        raise Refused(403, f"`{caller.caller.name}` may not search")
    caller.may_ask(subject_type, subject_id, resource_type)


def _action(asked: SubjectSearch | ResourceSearch) -> Entity:
    return Entity(asked.action.name, asked.action.properties)


def _empty() -> dict[str, Any]:
    return {"results": [], "page": {"next_token": ""}}


def _text(token: _Token) -> str:
    return base64.urlsafe_b64encode(_encode(token)).decode().rstrip("=")


def _cursor(text: str, digest: bytes) -> str:
    if not text:
        return ""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.msgpack.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise Refused(400, "page.token is none that this gateway gave") from None
    if token.search != digest:
        raise Refused(400, "page.token belongs to a search with other parameters")
    return token.cursor

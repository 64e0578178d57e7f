"""Asking from the console: a decision, why it is so and which lines of policies decided it; and who may do what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from authfabric.console.fabric_watch_service import Live
from authfabric.console.policy_listing import PolicyListing, read_listing
from authz import AuthFabricError, Decision, Entity, InvalidRequest, Request
from authz.errors import UNREADABLE
from authz.explanation import Explanation
from authz.request import Attributes
from bus.wire import SearchPage, SearchQuery
from pep import Enforcer

Wanted: TypeAlias = Literal["subject", "object", "action"]
ROOTS: tuple[Wanted, ...] = ("subject", "object", "action")
FOUND = 200
"""Maximum that one page of a search shows."""
_NAMES = ("subject", "subject_attributes", "object", "object_attributes", "action", "context")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it stands in the form."""

    subject: str = ""
    subject_attributes: str = ""
    object: str = ""
    object_attributes: str = ""
    action: str = ""
    context: str = ""

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Asked:
        return cls(*(fields.get(name, "").strip() for name in _NAMES))

    @property
    def wanted(self) -> Wanted | None:
        """What is sought, if exactly one of subject, object and action is left open."""
        open_: list[Wanted] = [name for name in ROOTS if not getattr(self, name)]
        return open_[0] if len(open_) == 1 else None

    def query(self, wanted: Wanted, cursor: str) -> SearchQuery:
        """Raises InvalidRequest."""
        return SearchQuery(
            wanted,
            None if wanted == "subject" else self._subject(),
            None if wanted == "object" else self._object(),
            None if wanted == "action" else Entity(self.action),
            _attributes("context", self.context),
            FOUND,
            cursor,
        )

    def _subject(self) -> Entity:
        return Entity(self.subject, _attributes("subject attributes", self.subject_attributes))

    def _object(self) -> Entity:
        return Entity(self.object, _attributes("object attributes", self.object_attributes))

    @property
    def whole(self) -> bool:
        """Whether enough is given to ask."""
        return bool(self.subject and self.object and self.action)

    def request(self) -> Request:
        """Raises InvalidRequest."""
        return Request.of(self._subject(), self._object(), self.action, _attributes("context", self.context))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A policy as it is written, and whether it decided."""

    policy: str
    file: str
    lines: list[tuple[int, str]]
    decided: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What the fabric says to a question."""

    decision: Decision | None = None
    explanation: Explanation | None = None
    excerpts: list[Excerpt] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found."""

    wanted: str
    page: SearchPage = field(default_factory=SearchPage)
    problem: str = ""


class Questions:
    """Asks the fabric, as any service does."""

    def __init__(self, pep: Enforcer, live: Live) -> None:
        self._pep = pep
        self._live = live

    async def answer(self, asked: Asked) -> Answer:
        try:
            request = asked.request()
        except InvalidRequest as error:
            return Answer(problem=str(error))
        decision = await self._pep.check(request)
        try:
            explanation = await self._pep.explain(request)
            shelf = await read_listing(self._live.bus, self._live.domain, self._live.trusted)
        except AuthFabricError as error:
            return Answer(decision, problem=f"there is no explanation: {error}")
        return Answer(decision, explanation, _excerpts(explanation, shelf))

    async def search(self, asked: Asked, cursor: str) -> Found | None:
        """Who may, or what may be done, where one of the three is left open; None if there is nothing to search by."""
        if (wanted := asked.wanted) is None:
            return None
        try:
            return Found(wanted, await self._pep.search(asked.query(wanted, cursor)))
        except AuthFabricError as error:
            return Found(wanted, problem=str(error))


def _excerpts(explanation: Explanation, shelf: PolicyListing) -> list[Excerpt]:
    found = list[Excerpt]()
    for each in explanation.policies:
        if (place := shelf.policy(each.policy)) is not None:
            found.append(Excerpt(each.policy, place.file, place.lines, each.determines))
    return found


def _attributes(name: str, text: str) -> Attributes:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except UNREADABLE as error:
        raise InvalidRequest(name, f'must be a JSON object, such as {{"role": "clerk"}}: {error}') from None

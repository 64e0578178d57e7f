"""Asking a question from the console: the decision, why it is so, and the lines of the policies that decided it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from authfabric.console.live_service import Live
from authfabric.console.policy_shelf import Shelf, read_shelf
from authz import AuthFabricError, Decision, Entity, InvalidRequest, Request
from authz.errors import UNREADABLE
from authz.explanation import Explanation
from authz.request import Attributes
from pep import Enforcer

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
    def whole(self) -> bool:
        """Whether enough is given to ask."""
        return bool(self.subject and self.object and self.action)

    def request(self) -> Request:
        """Raises InvalidRequest."""
        return Request.of(
            Entity(self.subject, _attributes("subject attributes", self.subject_attributes)),
            Entity(self.object, _attributes("object attributes", self.object_attributes)),
            self.action,
            _attributes("context", self.context),
        )


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
            shelf = await read_shelf(self._live.bus, self._live.domain, self._live.trusted)
        except AuthFabricError as error:
            return Answer(decision, problem=f"there is no explanation: {error}")
        return Answer(decision, explanation, _excerpts(explanation, shelf))


def _excerpts(explanation: Explanation, shelf: Shelf) -> list[Excerpt]:
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

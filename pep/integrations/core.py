"""What all integrations share: how a route becomes a question, and how an answer becomes a response.

A denial is problem+json without a word about policies. A fabric that cannot answer is 503 with Retry-After, and never
an allow. An obligation without a handler is a denial.
"""

from __future__ import annotations

import enum
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from authz import AuthFabricError, Decision, Entity, InvalidRequest, Reason, Request
from authz.request import Attributes
from authz.scope import ScopeUnavailable
from bus.errors import NoResponders, NotConnected, ReplyTimeout
from pep.enforcer import Enforcer
from pep.errors import AccessDenied
from pep.obligations import Obligations, Plan
from pep.sync import SyncEnforcer

_log = logging.getLogger("authfabric.pep")

RETRY_SECONDS = 1
"""After how many seconds a client may try again where the fabric could not answer."""
OWN_REFUSALS = (NoResponders, NotConnected, ReplyTimeout, ScopeUnavailable, AccessDenied)
"""What a route's own questions raise: `scope`, `search` and `explain` without an answer, and `require`."""
CONTENT_TYPE = "application/problem+json"
_FIELD = re.compile(r"\{(\w+)(:path)?\}")
_encode = msgspec.json.Encoder().encode


class _Public(enum.Enum):
    PUBLIC = "public"


PUBLIC: Final = _Public.PUBLIC
"""What a route is that needs no permission. It must be said: a route without a word is denied."""

Name: TypeAlias = str | Entity
Question: TypeAlias = Request | tuple[Name, Name, Name] | tuple[Name, Name, Name, Attributes]
"""Subject, object and action, and the context if there is any."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A denial as an HTTP response."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @classmethod
    def of(cls, decision: Decision) -> Problem:
        document = decision.as_problem()
        headers = {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
        if document["status"] == 503:
            headers["Retry-After"] = str(RETRY_SECONDS)
        return cls(int(str(document["status"])), _encode(document), headers)


class Refused(AuthFabricError):
    """A request that is not let through. `decision` says why, `problem` is what the caller is told."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(str(decision))
        self.decision = decision
        self.problem = Problem.of(decision)


class RouteMisfit(AuthFabricError):
    """A template with a field that its route has not: a mistake in the service, not in the request."""

    def __init__(self, template: str, field: str, known: Iterable[str]) -> None:
        named = ", ".join(f"`{each}`" for each in known) or "no parameters"
        super().__init__(
            f"`{template}` needs `{field}`, and the route has {named}: use the same name in both"
        )
        self.template = template
        self.field = field


class NoEnforcer(AuthFabricError):
    """A guard that has nobody to ask: `place` is where the enforcer should be."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"no enforcer is set: give `Guard(pep=...)`, or set `{place}` before the first request"
        )
        self.place = place


class Core:
    """Asks, and keeps the handlers of obligations."""

    def __init__(self) -> None:
        self._obligations = Obligations()
        self.obligation = self._obligations.obligation
        """Registers the handler of an obligation, for what is guarded by this one."""

    async def permit(self, pep: Enforcer, question: Question, *, result: bool) -> Plan:
        """Ask, and begin to meet the obligations. Raises Refused."""
        try:
            request = as_request(question)
            decision = await pep.check(request)
        except InvalidRequest as error:
            raise invalid(error) from None
        plan = pep.obligations.merged(self._obligations).plan(request, decision, result=result)
        if not plan.decision.allowed:
            raise Refused(plan.decision)
        await plan.begin()
        return plan

    def permit_now(self, pep: SyncEnforcer, question: Question, *, result: bool) -> Plan:
        """The same for threads."""
        try:
            request = as_request(question)
            decision = pep.check(request)
        except InvalidRequest as error:
            raise invalid(error) from None
        plan = pep.obligations.merged(self._obligations).plan(request, decision, result=result)
        if not plan.decision.allowed:
            raise Refused(plan.decision)
        plan.begin_now()
        return plan


def own_refusal(error: BaseException) -> Refused:
    """What a caller is told of one of OWN_REFUSALS: a denial as one of the guard, and no answer as 503."""
    if isinstance(error, AccessDenied):
        return Refused(error.decision)
    if isinstance(error, ScopeUnavailable):  # whoever runs the service may have to mend it
        _log.error("there is no scope: %s", error)
    return Refused(Decision(False, Reason.NO_PDP, detail=str(error)))


def as_request(question: Question) -> Request:
    """Raises InvalidRequest for what is no question."""
    if isinstance(question, Request):
        return question
    if not isinstance(question, tuple) or not 3 <= len(question) <= 4:
        raise InvalidRequest("question", "must be (subject, object, action), with a context or without")
    return Request.of(*question)


def invalid(error: InvalidRequest) -> Refused:
    return Refused(Decision(False, Reason.INVALID_REQUEST, detail=str(error)))


class Template:
    """An object's name with fields, such as `/documents/{id}`. A value with a slash fits `{id:path}` only."""

    def __init__(self, text: str) -> None:
        if set("{}") & set(_FIELD.sub("", text)):
            raise ValueError(
                f"`{text}` must have fields such as `{{id}}` or `{{id:path}}`, and no other braces"
            )
        self._text = text
        self._whole = {name: bool(path) for name, path in _FIELD.findall(text)}
        self._format = _FIELD.sub(r"{\1}", text)

    @property
    def is_name(self) -> bool:
        """Whether it has no fields."""
        return not self._whole

    def fill(self, values: Mapping[str, object], *, sent: bool = False) -> str:
        """The name of one object. Raises InvalidRequest for a value that would lead to another place.

        The values are the route's, which has every field (else RouteMisfit), or were `sent`, and may lack some.
        """
        fields = {}
        for name, whole in self._whole.items():
            if name not in values and not sent:
                raise RouteMisfit(self._text, name, values)
            value = shown(values.get(name, ""))
            if not value or (not whole and "/" in value):
                problem = "is missing" if not value else "must not have a slash"
                raise InvalidRequest(name, f"{problem}: it becomes part of `{self._text}`")
            fields[name] = value
        return self._format.format(**fields)


def shown(value: object) -> str:
    """A value as it stands in an object's name. One that a service read as a number, a UUID or a date has one form."""
    return "" if value is None else str(value.value if isinstance(value, enum.Enum) else value)


Of: TypeAlias = str | Callable[..., Any]
"""A template, or what makes the name from the framework's request."""


def template(given: Any) -> Template | None:
    """The template, if it is one."""
    return Template(given) if isinstance(given, str) else None

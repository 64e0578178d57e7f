"""FastMCP: tools, resources and prompts are objects, which a middleware asks about: `mcp.add_middleware(Guard(...))`.

| | object | action |
| --- | --- | --- |
| a tool | `/tools/NAME`, with its `arguments` | `call` |
| a resource | `/resources/URI` without query and fragment, with the lists of values in its `query` | `read` |
| a prompt | `/prompts/NAME` | `get` |

Lists have what may be used only. Arguments that are not of the types that a tool names are refused: it would make
others of them than policies have seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qs, unquote

from authz import Entity, InvalidRequest, Request
from authz.extras import needing
from pep.enforcer import Enforcer
from pep.integrations.core import (
    OWN_REFUSALS,
    Core,
    Name,
    Refused,
    as_request,
    invalid,
    own_refusal,
)
from pep.obligations import Plan

with needing("fastmcp"):
    from fastmcp.exceptions import AuthorizationError, FastMCPError, NotFoundError
    from fastmcp.server.dependencies import get_access_token
    from fastmcp.server.middleware import Middleware, MiddlewareContext
    from jsonschema import Draft202012Validator

T = TypeVar("T")
Context: TypeAlias = MiddlewareContext[Any]
Next: TypeAlias = Callable[[Context], Awaitable[Any]]

ANONYMOUS = "anonymous"
"""Who calls without a token. Policies say what that one may do."""


def token_subject(context: Context) -> str:
    """Whom the access token names."""
    token = get_access_token()
    if token is None:
        return ANONYMOUS
    return str(token.claims.get("sub") or token.client_id)


class Guard(Core, Middleware):
    """Asks before each call, with the arguments of a tool as the attribute `arguments` of the object."""

    def __init__(
        self,
        pep: Enforcer | Callable[[], Enforcer],
        subject: Callable[[Context], Name | Awaitable[Name]] = token_subject,
    ) -> None:
        super().__init__()
        self._pep = pep
        self._subject = subject

    async def on_call_tool(self, context: Context, call_next: Next) -> Any:
        try:
            thing = await _tool(context)
        except InvalidRequest as error:
            raise _told(invalid(error)) from None
        return await self._guarded(context, call_next, thing, "call")

    async def on_read_resource(self, context: Context, call_next: Next) -> Any:
        try:
            thing = _resource(str(context.message.uri))
        except InvalidRequest as error:
            raise _told(invalid(error)) from None
        return await self._guarded(context, call_next, thing, "read")

    async def on_get_prompt(self, context: Context, call_next: Next) -> Any:
        return await self._guarded(context, call_next, Entity(f"/prompts/{context.message.name}"), "get")

    async def on_list_tools(self, context: Context, call_next: Next) -> Any:
        return await self._allowed(
            context, await call_next(context), lambda each: Entity(f"/tools/{each.name}"), "call"
        )

    async def on_list_resources(self, context: Context, call_next: Next) -> Any:
        return await self._allowed(
            context, await call_next(context), lambda each: _resource(str(each.uri)), "read"
        )

    async def on_list_resource_templates(self, context: Context, call_next: Next) -> Any:
        return await self._allowed(
            context, await call_next(context), lambda each: _resource(each.uri_template), "read"
        )

    async def on_list_prompts(self, context: Context, call_next: Next) -> Any:
        return await self._allowed(
            context, await call_next(context), lambda each: Entity(f"/prompts/{each.name}"), "get"
        )

    async def _guarded(self, context: Context, call_next: Next, thing: Entity, action: str) -> Any:
        plan = await self._ask(context, thing, action)
        try:
            result = await call_next(context)
        except (FastMCPError, *OWN_REFUSALS) as error:
            # The framework wraps what a tool raises, and tells the caller its text.
            cause = error if isinstance(error, OWN_REFUSALS) else error.__cause__
            if not isinstance(cause, OWN_REFUSALS):
                raise
            raise _told(own_refusal(cause)) from None
        return await plan.finish(result)

    async def _ask(self, context: Context, thing: Entity, action: str) -> Plan:
        """Raises AuthorizationError, which tells the caller no more than that."""
        try:
            return await self.permit(self._enforcer(), (await self._who(context), thing, action), result=True)
        except Refused as refused:
            raise _told(refused) from None

    async def _allowed(
        self, context: Context, listed: Sequence[T], name: Callable[[T], Entity], action: str
    ) -> Sequence[T]:
        who = await self._who(context)
        try:
            asked: list[Request | tuple[str, str, str]] = [
                as_request((who, name(each), action)) for each in listed
            ]
        except InvalidRequest:
            return []
        decisions = await self._enforcer().check_many(asked)
        return [each for each, decision in zip(listed, decisions, strict=True) if decision.allowed]

    async def _who(self, context: Context) -> Name:
        who = self._subject(context)
        return await who if inspect.isawaitable(who) else who

    def _enforcer(self) -> Enforcer:
        return self._pep if isinstance(self._pep, Enforcer) else self._pep()


def _told(refused: Refused) -> AuthorizationError:
    return AuthorizationError(str(refused.decision.as_problem()["detail"]))


async def _tool(context: Context) -> Entity:
    """A tool and its arguments, with the defaults of those left out. Raises InvalidRequest for others than it takes."""
    name, arguments = context.message.name, dict(context.message.arguments or {})
    try:
        tool = await context.fastmcp_context.fastmcp.get_tool(name)  # type: ignore[union-attr]
    except NotFoundError:
        tool = None
    schema = {} if tool is None else tool.parameters
    if not Draft202012Validator(schema).is_valid(arguments):
        raise InvalidRequest("arguments", f"must be of the types that the tool `{name}` takes")
    known = schema.get("properties", {})
    defaults = {each: known[each]["default"] for each in known if "default" in known[each]}
    return Entity(f"/tools/{name}", {"arguments": defaults | arguments})


def _resource(uri: str) -> Entity:
    """What is read, however it is spelled. Raises InvalidRequest for a slash that is none to whoever reads it."""
    path, _, query = uri.partition("#")[0].partition("?")
    if "%2f" in path.lower():
        raise InvalidRequest("uri", "must not have an encoded slash")
    return Entity(f"/resources/{unquote(path)}", {"query": parse_qs(query, True)} if query else {})

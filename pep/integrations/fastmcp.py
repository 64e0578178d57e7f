"""FastMCP: tools, resources and prompts are objects, which a middleware asks about: `mcp.add_middleware(Guard(...))`.

| | object | action |
| --- | --- | --- |
| a tool | `/tools/NAME` | `call` |
| a resource | `/resources/URI` | `read` |
| a prompt | `/prompts/NAME` | `get` |

Lists have what may be used only.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from authz import Entity, InvalidRequest, Request
from authz.extras import needing
from pep.enforcer import Enforcer
from pep.integrations.core import Core, Name, Refused, as_request
from pep.obligations import Plan

with needing("fastmcp"):
    from fastmcp.exceptions import AuthorizationError
    from fastmcp.server.dependencies import get_access_token
    from fastmcp.server.middleware import Middleware, MiddlewareContext

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
        message = context.message
        thing = Entity(f"/tools/{message.name}", {"arguments": dict(message.arguments or {})})
        return await self._guarded(context, call_next, thing, "call")

    async def on_read_resource(self, context: Context, call_next: Next) -> Any:
        return await self._guarded(context, call_next, Entity(f"/resources/{context.message.uri}"), "read")

    async def on_get_prompt(self, context: Context, call_next: Next) -> Any:
        return await self._guarded(context, call_next, Entity(f"/prompts/{context.message.name}"), "get")

    async def on_list_tools(self, context: Context, call_next: Next) -> Any:
        return await self._allowed(
            context, await call_next(context), lambda each: f"/tools/{each.name}", "call"
        )

    async def on_list_resources(self, context: Context, call_next: Next) -> Any:
        return await self._allowed(
            context, await call_next(context), lambda each: f"/resources/{each.uri}", "read"
        )

    async def on_list_prompts(self, context: Context, call_next: Next) -> Any:
        return await self._allowed(
            context, await call_next(context), lambda each: f"/prompts/{each.name}", "get"
        )

    async def _guarded(self, context: Context, call_next: Next, thing: Entity, action: str) -> Any:
        plan = await self._ask(context, thing, action)
        return await plan.finish(await call_next(context))

    async def _ask(self, context: Context, thing: Entity, action: str) -> Plan:
        """Raises AuthorizationError, which tells the caller no more than that."""
        try:
            return await self.permit(self._enforcer(), (await self._who(context), thing, action), result=True)
        except Refused as refused:
            raise AuthorizationError(str(refused.decision.as_problem()["detail"])) from None

    async def _allowed(
        self, context: Context, listed: Sequence[T], name: Callable[[T], str], action: str
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

"""gRPC: interceptors for servers on asyncio and for servers with threads.

A denial is PERMISSION_DENIED. A fabric that cannot answer is UNAVAILABLE, with `retry-after` in the trailing metadata.
So is what the call's own questions, such as a scope, are not answered.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple, NoReturn, TypeAlias

from authz import Decision, InvalidRequest, Reason
from authz.extras import needing
from pep.enforcer import Enforcer
from pep.integrations.core import (
    OWN_REFUSALS,
    PUBLIC,
    RETRY_SECONDS,
    Core,
    Question,
    Refused,
    _Public,
    invalid,
    own_refusal,
)
from pep.obligations import Plan
from pep.sync import SyncEnforcer

with needing("grpc"):
    import grpc


class Call(NamedTuple):
    """What is known of a call when it is asked about."""

    method: str
    """Such as `/shop.Orders/Place`."""
    message: Any
    """What was sent; None if the client sends a stream."""
    context: Any
    """The framework's own context: metadata, peer, and who was authenticated."""

    @property
    def metadata(self) -> dict[str, str | bytes]:
        """The metadata by name."""
        return dict(self.context.invocation_metadata() or ())


Routed: TypeAlias = Question | _Public | None
Route: TypeAlias = Callable[[Call], Routed]
"""The question that a call is, or PUBLIC. Without either it is denied."""

_UNROUTED = Decision(False, Reason.NO_POLICY, detail="no route says what this is")
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    403: grpc.StatusCode.PERMISSION_DENIED,
    503: grpc.StatusCode.UNAVAILABLE,
}


class AioGuard(Core, grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """`grpc.aio.server(interceptors=[AioGuard(pep, route)])`."""

    def __init__(self, pep: Enforcer, route: Route) -> None:
        super().__init__()
        self._pep = pep
        self._route = route

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """Guard what serves the call."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        work, streams_in, streams_out = _parts(handler)

        async def unary(message: Any, context: Any) -> Any:
            plan = await self._ask(Call(method, None if streams_in else message, context), result=True)
            try:
                done = work(message, context)
                done = await done if inspect.isawaitable(done) else done
            except OWN_REFUSALS as error:
                await _abort_async(context, own_refusal(error))
            return done if plan is None else await plan.finish(done)

        async def stream(message: Any, context: Any) -> AsyncIterator[Any]:
            plan = await self._ask(Call(method, None if streams_in else message, context), result=True)
            try:
                async for each in work(message, context):
                    yield each if plan is None else await plan.finish(each)
            except OWN_REFUSALS as error:
                await _abort_async(context, own_refusal(error))

        async def writing(message: Any, context: Any) -> None:
            await self._ask(Call(method, None if streams_in else message, context), result=False)
            try:
                await work(message, context)
            except OWN_REFUSALS as error:
                await _abort_async(context, own_refusal(error))

        if streams_out and inspect.iscoroutinefunction(work):  # it writes to the context, past any handler
            return _rebuilt(handler, writing)
        return _rebuilt(handler, stream if streams_out else unary)

    async def _ask(self, call: Call, *, result: bool) -> Plan | None:
        """The plan; None if the call is public. Aborts it if it is refused."""
        try:
            question = _question(self._route, call)
            return None if question is None else await self.permit(self._pep, question, result=result)
        except Refused as refused:
            await _abort_async(call.context, refused)


class ThreadGuard(Core, grpc.ServerInterceptor):  # type: ignore[misc]
    """`grpc.server(pool, interceptors=[ThreadGuard(pep, route)])`."""

    def __init__(self, pep: SyncEnforcer, route: Route) -> None:
        super().__init__()
        self._pep = pep
        self._route = route

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        """Guard what serves the call."""
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        work, streams_in, streams_out = _parts(handler)

        def unary(message: Any, context: Any) -> Any:
            plan = self._ask(Call(method, None if streams_in else message, context))
            try:
                done = work(message, context)
            except OWN_REFUSALS as error:
                _abort(context, own_refusal(error))
            return done if plan is None else plan.finish_now(done)

        def stream(message: Any, context: Any) -> Iterator[Any]:
            plan = self._ask(Call(method, None if streams_in else message, context))
            try:
                for each in work(message, context):
                    yield each if plan is None else plan.finish_now(each)
            except OWN_REFUSALS as error:
                _abort(context, own_refusal(error))

        return _rebuilt(handler, stream if streams_out else unary)

    def _ask(self, call: Call) -> Plan | None:
        try:
            question = _question(self._route, call)
            return None if question is None else self.permit_now(self._pep, question, result=True)
        except Refused as refused:
            _abort(call.context, refused)


def _question(route: Route, call: Call) -> Question | None:
    """None if the call is public. Raises Refused."""
    try:
        routed = route(call)
    except InvalidRequest as error:
        raise invalid(error) from None
    if routed is None:
        raise Refused(_UNROUTED)
    return None if routed is PUBLIC else routed


async def _abort_async(context: Any, refused: Refused) -> NoReturn:
    await context.abort(*_status(refused))
    raise refused


def _abort(context: Any, refused: Refused) -> NoReturn:
    code, detail, trailing = _status(refused)
    context.set_trailing_metadata(trailing)
    context.abort(code, detail)
    raise refused


def _status(refused: Refused) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]:
    status = refused.problem.status
    trailing = (("retry-after", str(RETRY_SECONDS)),) if status == 503 else ()
    return _CODES[status], str(refused.decision.as_problem()["detail"]), trailing


def _parts(handler: Any) -> tuple[Callable[..., Any], bool, bool]:
    """What does the work, and whether messages come and go as streams."""
    streams = (bool(handler.request_streaming), bool(handler.response_streaming))
    work = {
        (False, False): handler.unary_unary,
        (False, True): handler.unary_stream,
        (True, False): handler.stream_unary,
        (True, True): handler.stream_stream,
    }[streams]
    return work, *streams


def _rebuilt(handler: Any, work: Callable[..., Any]) -> Any:
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[bool(handler.request_streaming), bool(handler.response_streaming)]
    return make(work, handler.request_deserializer, handler.response_serializer)

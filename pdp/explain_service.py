"""Explanations on the bus: any replica that can answer a request can also say why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager

import msgspec

from authz import AuthFabricError, Request
from bus.connection import Connection
from bus.envelope import Unpack, pack
from bus.errors import BadMessage
from bus.responder import responding
from bus.scopes import Scope, own_scope, widest
from bus.subjects import QUEUE, Mode, interest, question
from pdp.explain import Explanation


class ExplainRequest(msgspec.Struct, frozen=True):
    request: Request


class Explained(msgspec.Struct, frozen=True):
    """The explanation, or why there is none."""

    explanation: Explanation | None = None
    problem: str = ""


_BUSY = pack(Explained(problem="too many questions at once: try again later"))
_unpack_request = Unpack(ExplainRequest)
_unpack_explained = Unpack(Explained)


def serve_explanations(
    bus: Connection, explain: Callable[[Request], Awaitable[Explanation]], scopes: Iterable[Scope]
) -> AbstractAsyncContextManager[None]:
    """Explain whatever lies in the scopes, for the length of the block."""

    async def answer(payload: bytes) -> bytes:
        try:
            return _pack(Explained(await explain(_unpack_request(payload).request)))
        except AuthFabricError as error:  # unreadable, or there is nothing to decide by
            return pack(Explained(problem=str(error)))

    subjects = [interest(Mode.EXPLAIN, scope) for scope in widest(scopes)]
    return responding(bus, subjects, answer, busy=_BUSY, queue=QUEUE)


async def ask_why(bus: Connection, domain: str, request: Request, seconds: float) -> Explained:
    """Ask any replica that serves the request for its explanation. Raises NoResponders or ReplyTimeout."""
    subject = question(Mode.EXPLAIN, own_scope(domain, request))
    return _unpack_explained(await bus.ask(subject, pack(ExplainRequest(request)), seconds))


def _pack(explained: Explained) -> bytes:
    try:
        return pack(explained)
    except BadMessage as error:
        return pack(Explained(problem=f"the explanation is too large to send: {error}"))

"""Explanations on the bus: any replica that can answer a request can also say why."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable

import msgspec

from authz import AuthFabricError, Request
from bus.connection import Connection
from bus.envelope import Unpack, pack
from bus.errors import BadMessage
from bus.scopes import Scope, own_scope, widest
from bus.subjects import QUEUE, Mode, interest, is_inbox, question
from pdp.explain import Explanation


class ExplainRequest(msgspec.Struct, frozen=True):
    request: Request


class Explained(msgspec.Struct, frozen=True):
    """The explanation, or why there is none."""

    explanation: Explanation | None = None
    problem: str = ""


_unpack_request = Unpack(ExplainRequest)
_unpack_explained = Unpack(Explained)


@contextlib.asynccontextmanager
async def serve_explanations(
    bus: Connection, explain: Callable[[Request], Explanation], scopes: Iterable[Scope]
) -> AsyncIterator[None]:
    """Explain whatever lies in the scopes, for the length of the block."""

    def answer(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if not is_inbox(reply):
            return
        try:
            explained = Explained(explain(_unpack_request(payload).request))
        except AuthFabricError as error:  # unreadable, or there is nothing to decide by
            explained = Explained(problem=str(error))
        bus.send(reply, _pack(explained))

    subscriptions = [
        await bus.listen(interest(Mode.EXPLAIN, scope), answer, QUEUE) for scope in widest(scopes)
    ]
    try:
        yield
    finally:
        await bus.cancel(subscriptions)


async def ask_why(bus: Connection, domain: str, request: Request, seconds: float) -> Explained:
    """Ask any replica that serves the request for its explanation. Raises NoResponders or ReplyTimeout."""
    subject = question(Mode.EXPLAIN, own_scope(domain, request))
    return _unpack_explained(await bus.ask(subject, pack(ExplainRequest(request)), seconds))


def _pack(explained: Explained) -> bytes:
    try:
        return pack(explained)
    except BadMessage as error:
        return pack(Explained(problem=f"the explanation is too large to send: {error}"))

"""Explanations on the bus: any replica that can answer a request can also say why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager

from authz import AuthFabricError, Request
from authz.explanation import Explanation
from bus.errors import BadMessage
from bus.nats import Connection
from bus.services import Explained, responding, unpack_explain_request
from bus.wire import QUEUE, Mode, Scope, interest, pack, widest

_BUSY = pack(Explained(problem="too many questions at once: try again later"))


def serve_explanations(
    bus: Connection, explain: Callable[[Request], Awaitable[Explanation]], scopes: Iterable[Scope]
) -> AbstractAsyncContextManager[None]:
    """Explain whatever lies in the scopes, for the length of the block."""

    async def answer(payload: bytes) -> bytes:
        try:
            return _pack(Explained(await explain(unpack_explain_request(payload).request)))
        except AuthFabricError as error:  # unreadable, or there is nothing to decide by
            return pack(Explained(problem=str(error)))

    subjects = [interest(Mode.EXPLAIN, scope) for scope in widest(scopes)]
    return responding(bus, subjects, answer, busy=_BUSY, queue=QUEUE)


def _pack(explained: Explained) -> bytes:
    try:
        return pack(explained)
    except BadMessage as error:
        return pack(Explained(problem=f"the explanation is too large to send: {error}"))

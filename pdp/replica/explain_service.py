"""Explanations on the bus: any replica that can answer a request can also say why, and authenticates it likewise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager

from authz import AuthFabricError, Request
from authz.explanation import Explanation
from bus.errors import BadMessage
from bus.nats import Connection
from bus.services import Limits, responding_by_subject
from bus.wire import QUEUE, Explained, Mode, Scope, interest, pack, unpack_explain_query, widest
from pdp.replica.answer_authority import AnswerAuthority

_BUSY = pack(Explained(problem="too many questions at once: try again later"))
_LIMITS = Limits(4, 64, 68)


def serve_explanations(
    bus: Connection,
    explain: Callable[[Request], Awaitable[Explanation]],
    scopes: Iterable[Scope],
    authority: AnswerAuthority | None,
) -> AbstractAsyncContextManager[None]:
    """Explain whatever lies in the scopes, for the length of the block."""

    async def answer(subject: str, payload: bytes) -> bytes:
        asker = b""
        try:
            query = unpack_explain_query(payload)
            asker = query.asker
            packed = _pack(Explained(await explain(query.request)))
        except AuthFabricError as error:  # unreadable, or there is nothing to decide by
            packed = pack(Explained(problem=str(error)))
        return packed if authority is None else authority.answer(asker, subject, payload, packed)

    subjects = [interest(Mode.EXPLAIN, scope) for scope in widest(scopes)]
    return responding_by_subject(bus, subjects, answer, _LIMITS, busy=_BUSY, queue=QUEUE)


def _pack(explained: Explained) -> bytes:
    try:
        return pack(explained)
    except BadMessage as error:
        return pack(Explained(problem=f"the explanation is too large to send: {error}"))

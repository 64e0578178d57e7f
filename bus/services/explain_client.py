"""Asking over the bus why a request is decided as it is."""

from __future__ import annotations

import msgspec

from authz import Request
from authz.explanation import Explanation
from bus.errors import BusError
from bus.nats import Connection
from bus.wire import Mode, Unpack, own_scope, pack, question


class ExplanationRefused(BusError):
    """A request that a replica could not explain: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"there is no explanation: {problem}")
        self.problem = problem


class ExplainRequest(msgspec.Struct, frozen=True):
    request: Request


class Explained(msgspec.Struct, frozen=True):
    """The explanation, or why there is none."""

    explanation: Explanation | None = None
    problem: str = ""


unpack_explain_request = Unpack(ExplainRequest)
_unpack_explained = Unpack(Explained)


async def ask_why(bus: Connection, domain: str, request: Request, seconds: float) -> Explanation:
    """Ask any replica that serves the request for its explanation.

    Raises ExplanationRefused, NoResponders or ReplyTimeout.
    """
    subject = question(Mode.EXPLAIN, own_scope(domain, request))
    explained = _unpack_explained(await bus.ask(subject, pack(ExplainRequest(request)), seconds))
    if explained.explanation is None:
        raise ExplanationRefused(explained.problem)
    return explained.explanation

"""Scopes on the bus: any replica that serves a whole domain makes them, and authenticates them as it does decisions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from time import time

from authz import AuthFabricError
from authz.scope import Scope as ListScope
from authz.scope import ScopeRefused
from bus.nats import Connection
from bus.services import Limits, responding_by_subject
from bus.wire import Kind, Scope, ScopeAnswer, ScopeQuery, pack, subjects, unpack_scope_query
from pdp.replica.answer_authority import AnswerAuthority

_BUSY = pack(ScopeAnswer(problem="too many scopes at once: try again later"))
_LIMITS = Limits(4, 64, 68)
_log = logging.getLogger("authfabric.pdp")


def serve_scopes(
    bus: Connection,
    make: Callable[[ScopeQuery, float], Awaitable[ListScope]],
    scopes: Iterable[Scope],
    authority: AnswerAuthority | None,
) -> AbstractAsyncContextManager[None]:
    """Make scopes in the domains that are served as a whole, for the length of the block."""

    async def answer(subject: str, payload: bytes) -> bytes:
        asker = b""
        try:
            query = unpack_scope_query(payload)
            asker = query.asker
            answered = ScopeAnswer(await make(query, time()))
        except ScopeRefused as error:
            answered = ScopeAnswer(problem=error.problem, place=error.place)
        except AuthFabricError as error:
            answered = ScopeAnswer(problem=str(error))
        except Exception:
            _log.exception("a scope failed")
            answered = ScopeAnswer(problem="the PDP failed on this scope; see its log")
        packed = pack(answered)
        return packed if authority is None else authority.answer(asker, subject, payload, packed)

    whole = [each for each in scopes if each.kind <= Kind.DOMAIN]
    domains = {None if each.kind is Kind.BROADCAST else each.domain for each in whole}
    return responding_by_subject(
        bus, map(subjects.scope, domains), answer, _LIMITS, busy=_BUSY, queue=subjects.QUEUE
    )

"""Questions besides decisions, on the bus: explanations, searches and scopes, authenticated as decisions are."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from time import time

from authz import AuthFabricError, Request
from authz.explanation import Explanation
from authz.scope import Scope as ListScope
from authz.scope import ScopeRefused
from bus.errors import BadMessage
from bus.nats import Connection
from bus.services import Limits, responding_by_subject
from bus.wire import (
    Explained,
    Kind,
    Mode,
    Scope,
    ScopeAnswer,
    ScopeQuery,
    SearchPage,
    SearchQuery,
    interest,
    pack,
    subjects,
    unpack_explain_query,
    unpack_scope_query,
    unpack_search_query,
    widest,
)
from pdp.replica.answer_authority import AnswerAuthority

_LIMITS = Limits(4, 64, 68)
_log = logging.getLogger("authfabric.pdp")


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
            packed = _pack_explained(Explained(await explain(query.request)))
        except AuthFabricError as error:  # unreadable, or there is nothing to decide by
            packed = pack(Explained(problem=str(error)))
        return packed if authority is None else authority.answer(asker, subject, payload, packed)

    served = [interest(Mode.EXPLAIN, scope) for scope in widest(scopes)]
    busy = Explained(problem="too many questions at once: try again later")
    return responding_by_subject(bus, served, answer, _LIMITS, busy=pack(busy), queue=subjects.QUEUE)


def serve_search(
    bus: Connection,
    find: Callable[[SearchQuery], Awaitable[SearchPage]],
    scopes: Iterable[Scope],
    authority: AnswerAuthority | None,
) -> AbstractAsyncContextManager[None]:
    """Answer the searches in the domains that are served as a whole, for the length of the block."""

    async def answer(subject: str, payload: bytes) -> bytes:
        asker = b""
        try:
            query = unpack_search_query(payload)
            asker = query.asker
            page = await find(query)
        except AuthFabricError as error:
            page = SearchPage(problem=str(error))
        except Exception:
            _log.exception("a search failed")
            page = SearchPage(problem="the PDP failed on this search; see its log")
        packed = pack(page)
        return packed if authority is None else authority.answer(asker, subject, payload, packed)

    served = map(subjects.search, _whole_domains(scopes))
    busy = SearchPage(problem="too many searches at once: try again later")
    return responding_by_subject(bus, served, answer, _LIMITS, busy=pack(busy), queue=subjects.QUEUE)


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
            answered = ScopeAnswer(problem=str(error), unavailable=True)
        except Exception:
            _log.exception("a scope failed")
            problem = "the PDP failed on this scope; see its log"
            answered = ScopeAnswer(problem=problem, unavailable=True)
        packed = pack(answered)
        return packed if authority is None else authority.answer(asker, subject, payload, packed)

    served = map(subjects.scope, _whole_domains(scopes))
    busy = ScopeAnswer(problem="too many scopes at once: try again later", unavailable=True)
    return responding_by_subject(bus, served, answer, _LIMITS, busy=pack(busy), queue=subjects.QUEUE)


def _whole_domains(scopes: Iterable[Scope]) -> set[str | None]:
    """The domains that are served as a whole; None stands for every domain."""
    whole = [each for each in scopes if each.kind <= Kind.DOMAIN]
    return {None if each.kind is Kind.BROADCAST else each.domain for each in whole}


def _pack_explained(explained: Explained) -> bytes:
    try:
        return pack(explained)
    except BadMessage as error:
        return pack(Explained(problem=f"the explanation is too large to send: {error}"))

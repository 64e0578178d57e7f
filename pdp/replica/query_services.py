"""Questions besides decisions, on the bus: explanations, searches and scopes, authenticated as decisions are."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from time import time
from typing import TypeVar

from authz import AuthFabricError, Request
from authz.explanation import Explanation
from authz.scope import Scope as ListScope
from authz.scope import ScopeRefused
from bus.nats import Connection
from bus.services import Limits, responding_by_subject
from bus.wire import (
    Explained,
    ExplainQuery,
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
Query = TypeVar("Query", ExplainQuery, SearchQuery, ScopeQuery)
Answer = TypeVar("Answer", Explained, SearchPage, ScopeAnswer)


def serve_explanations(
    bus: Connection,
    explain: Callable[[Request], Awaitable[Explanation]],
    scopes: Iterable[Scope],
    authority: AnswerAuthority | None,
) -> AbstractAsyncContextManager[None]:
    """Explain whatever lies in the scopes, for the length of the block."""

    async def answer(query: ExplainQuery) -> Explained:
        return Explained(await explain(query.request))

    def refuse(problem: str) -> Explained:
        return Explained(problem=problem)

    served = [interest(Mode.EXPLAIN, scope) for scope in widest(scopes)]
    return _serve(bus, served, "explanation", unpack_explain_query, answer, refuse, authority)


def serve_search(
    bus: Connection,
    find: Callable[[SearchQuery], Awaitable[SearchPage]],
    scopes: Iterable[Scope],
    authority: AnswerAuthority | None,
) -> AbstractAsyncContextManager[None]:
    """Answer the searches in the domains that are served as a whole, for the length of the block."""

    def refuse(problem: str) -> SearchPage:
        return SearchPage(problem=problem)

    served = map(subjects.search, _whole_domains(scopes))
    return _serve(bus, served, "search", unpack_search_query, find, refuse, authority)


def serve_scopes(
    bus: Connection,
    make: Callable[[ScopeQuery, float], Awaitable[ListScope]],
    scopes: Iterable[Scope],
    authority: AnswerAuthority | None,
) -> AbstractAsyncContextManager[None]:
    """Make scopes in the domains that are served as a whole, for the length of the block."""

    async def answer(query: ScopeQuery) -> ScopeAnswer:
        try:
            return ScopeAnswer(await make(query, time()))
        except ScopeRefused as error:
            return ScopeAnswer(problem=error.problem, place=error.place)

    def refuse(problem: str) -> ScopeAnswer:
        return ScopeAnswer(problem=problem, unavailable=True)

    served = map(subjects.scope, _whole_domains(scopes))
    return _serve(bus, served, "scope", unpack_scope_query, answer, refuse, authority)


def _serve(
    bus: Connection,
    served: Iterable[str],
    what: str,
    unpack: Callable[[bytes], Query],
    make: Callable[[Query], Awaitable[Answer]],
    refuse: Callable[[str], Answer],
    authority: AnswerAuthority | None,
) -> AbstractAsyncContextManager[None]:
    """Answer what comes to these subjects, or say why there is no answer."""

    async def answer(subject: str, payload: bytes) -> bytes:
        asker = b""
        try:
            query = unpack(payload)
            asker = query.asker
            packed = pack(await make(query))
        except AuthFabricError as error:  # unreadable, too large to send, or there is nothing to decide by
            packed = pack(refuse(str(error)))
        except Exception:
            _log.exception("the PDP failed on this %s", what)
            packed = pack(refuse(f"the PDP failed on this {what}; see its log"))
        return packed if authority is None else authority.answer(asker, subject, payload, packed)

    busy = pack(refuse("too many questions at once: try again later"))
    return responding_by_subject(bus, served, answer, _LIMITS, busy=busy, queue=subjects.QUEUE)


def _whole_domains(scopes: Iterable[Scope]) -> set[str | None]:
    """The domains that are served as a whole; None stands for every domain."""
    whole = [each for each in scopes if each.kind <= Kind.DOMAIN]
    return {None if each.kind is Kind.BROADCAST else each.domain for each in whole}

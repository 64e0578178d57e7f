"""Searches on the bus: any replica that serves a whole domain answers them, authenticated as decisions are."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager

from authz import AuthFabricError
from bus.nats import Connection
from bus.services import Limits, responding_by_subject
from bus.wire import Kind, Scope, SearchPage, SearchQuery, pack, subjects, unpack_search_query
from pdp.replica.answer_authority import AnswerAuthority

_BUSY = pack(SearchPage(problem="too many searches at once: try again later"))
_LIMITS = Limits(4, 64, 68)
_log = logging.getLogger("authfabric.pdp")


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

    whole = [each for each in scopes if each.kind <= Kind.DOMAIN]
    domains = {None if each.kind is Kind.BROADCAST else each.domain for each in whole}
    return responding_by_subject(
        bus, map(subjects.search, domains), answer, _LIMITS, busy=_BUSY, queue=subjects.QUEUE
    )

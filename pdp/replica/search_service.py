"""Searches on the bus: any replica that serves a whole domain answers them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager

from authz import AuthFabricError
from bus.nats import Connection
from bus.services import responding
from bus.wire import Kind, Scope, SearchPage, SearchQuery, pack, subjects, unpack_search_query

_BUSY = pack(SearchPage(problem="too many searches at once: try again later"))
_log = logging.getLogger("authfabric.pdp")


def serve_search(
    bus: Connection, find: Callable[[SearchQuery], Awaitable[SearchPage]], scopes: Iterable[Scope]
) -> AbstractAsyncContextManager[None]:
    """Answer the searches in the domains that are served as a whole, for the length of the block."""

    async def answer(payload: bytes) -> bytes:
        try:
            return pack(await find(unpack_search_query(payload)))
        except AuthFabricError as error:
            return pack(SearchPage(problem=str(error)))
        except Exception:
            _log.exception("a search failed")
            return pack(SearchPage(problem="the PDP failed on this search; see its log"))

    whole = [each for each in scopes if each.kind <= Kind.DOMAIN]
    domains = {None if each.kind is Kind.BROADCAST else each.domain for each in whole}
    return responding(bus, map(subjects.search, domains), answer, busy=_BUSY, queue=subjects.QUEUE)

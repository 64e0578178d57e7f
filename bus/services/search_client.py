"""Searching over the bus: which subjects, objects or actions would be allowed."""

from __future__ import annotations

from bus.errors import BusError
from bus.nats import Connection
from bus.wire import SearchPage, SearchQuery, pack, subjects, unpack_search_page


class SearchRefused(BusError):
    """A search that a replica could not make: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the search was refused: {problem}")
        self.problem = problem


async def ask_search(bus: Connection, domain: str, query: SearchQuery, seconds: float) -> SearchPage:
    """One page, from any replica of the domain. Raises SearchRefused, NoResponders or ReplyTimeout."""
    page = unpack_search_page(await bus.ask(subjects.search(domain), pack(query), seconds))
    if page.problem:
        raise SearchRefused(page.problem)
    return page

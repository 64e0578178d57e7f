"""What the rest of a broker needs of its history, which may be absent together with the packages it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from authz.predicate import Predicate
from pubsub_core.history.position import Span
from pubsub_core.past import PageFound, PageWanted


class Keeper(Protocol):
    """Reads what was kept."""

    async def page(self, wanted: PageWanted, filter: Predicate, spans: Sequence[Span]) -> PageFound:  # noqa: A002
        """The page that is asked for, by this filter and of these times. Raises HistoryUnavailable."""
        ...

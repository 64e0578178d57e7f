"""What the rest of a broker needs of its history, which may be absent together with the packages it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from authz.predicate import Predicate
from pubsub_core.history.page_messages import PageFound, PageWanted
from pubsub_core.history.position import Span


class Keeper(Protocol):
    """Reads what was kept."""

    async def page(
        self,
        wanted: PageWanted,
        filter: Predicate,  # noqa: A002 - the domain's own word
        spans: Sequence[Span],
        near: bool,
    ) -> PageFound:
        """The page that is asked for, by this filter and of these times. Raises HistoryUnavailable.

        One that stays `near`, with the broker itself, may be larger, and hold what the filter does not let through.
        """
        ...

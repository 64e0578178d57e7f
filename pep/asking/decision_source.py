"""What an Enforcer asks: PDPs over the bus, or the engine in its own process; and read-your-writes consistency."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from authz import Decision, DecisionPoint, Reason, Request
from authz.explanation import Explanation
from authz.scope import Scope
from bus.wire import ScopeQuery, SearchPage, SearchQuery
from pep.asking.attempts import Terms
from pep.asking.strategy import RETRY_SECONDS, Strategy


class Asking(DecisionPoint, Protocol):
    """A decision point that can be asked in a given way, and within a given time."""

    usual: Terms

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def terms(self, seconds: float | None, strategy: Strategy | str | None) -> Terms | None:
        """What one call asks for, if not the usual. Raises InvalidRequest."""
        ...

    def decide(self, request: Request, terms: Terms | None = None) -> asyncio.Future[Decision]:
        """Ask. A future, so that asking costs no task of its own. Raises InvalidRequest."""
        ...

    def decide_valid(self, request: Request, terms: Terms | None = None) -> asyncio.Future[Decision]:
        """The same for a request that is known to be valid."""
        ...

    async def search(self, query: SearchQuery, seconds: float) -> SearchPage:
        """One page of a search. Raises SearchRefused, NoResponders or ReplyTimeout."""
        ...

    async def scope(self, query: ScopeQuery, seconds: float) -> Scope:
        """What may be listed. Raises ScopeRefused, ScopeUnavailable, NoResponders or ReplyTimeout."""
        ...

    async def explain(self, request: Request, seconds: float) -> Explanation:
        """Why it is decided as it is. Raises ExplanationRefused, NoResponders or ReplyTimeout."""
        ...


async def decide_at_least(
    asking: Asking, request: Request, terms: Terms | None, epoch: Callable[[], int]
) -> Decision:
    """Ask again and again: PDPs take a moment to change over. A denial if none has by the deadline.

    `epoch` is looked at after the first answer: a release may have come meanwhile.
    """
    strategy, seconds = terms or asking.usual
    deadline, wait = monotonic() + seconds, 0.0
    decision = await asking.decide(request, terms)
    at_least = epoch()
    while decision.decided and decision.epoch < at_least:
        await asyncio.sleep(min(wait, max(0.0, deadline - monotonic())))
        wait = max(RETRY_SECONDS, wait * 2)
        if (left := deadline - monotonic()) <= 0:
            break
        decision = await asking.decide(request, (strategy, left))
    else:
        return decision
    problem = (
        f"no PDP answered for `{request.object.id}` by epoch {at_least} or a newer one within {seconds:g} s"
    )
    return Decision(False, Reason.TIMEOUT, detail=problem)

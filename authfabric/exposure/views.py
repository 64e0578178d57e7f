"""The views of clients: the accesses that each had, under the policies of then and under proposed ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from authfabric.exposure.access_finder import AccessFinder
from authfabric.exposure.counting import View
from authfabric.exposure.evidence import Client, Evidence, Period, Question
from pdp.bundle import Bundle
from pubsub_core.history import Span


@asynccontextmanager
async def find_views(
    question: Question, evidence: Evidence, proposed: Bundle | None, names: Collection[str] | None = None
) -> AsyncIterator[tuple[dict[str, View], AccessFinder]]:
    """The views of all clients, or of some, by name. Raises InvalidPolicies."""
    others = [] if proposed is None else [Period(Span(), proposed)]
    by_name: dict[str, list[Client]] = {}
    for each in evidence.clients:
        if names is None or each.credential.name in names:
            by_name.setdefault(each.credential.name, []).append(each)
    bundles = [each.bundle for each in (*evidence.periods, *others)]
    async with AccessFinder.of(question, evidence, bundles) as accesses:

        async def view(clients: Sequence[Client]) -> View:
            then = [access for each in clients for access in await accesses.find(each, evidence.periods)]
            after = [access for each in clients for access in await accesses.find(each, others)]
            return View(tuple(then), None if proposed is None else tuple(after))

        yield {name: await view(clients) for name, clients in by_name.items()}, accesses

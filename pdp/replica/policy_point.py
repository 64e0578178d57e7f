"""Everything a replica answers with under one epoch: it decides, explains and searches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from authz import Decision, Entity, Request
from authz.explanation import Explanation
from authz.predicate.widening import attributes
from authz.scope import Scope, ScopeUnavailable
from bus.wire import ScopeQuery, SearchPage, SearchQuery
from pdp.attributes import CachingProvider, Enricher, unavailable
from pdp.bundle import Entities, PolicySet
from pdp.replica.scoping import Scoper
from pdp.replica.search import Searcher

SCOPE_SECONDS = 10.0
"""Maximum lifetime of a scope in seconds: as long as a lease."""

_log = logging.getLogger("authfabric.pdp")


class PolicyPoint:
    """Policies, ready to answer. It never changes: new policies are a new point."""

    def __init__(
        self,
        policies: PolicySet,
        epoch: int = 0,
        *,
        providers: Sequence[CachingProvider] = (),
        entities: Entities | None = None,
        certify: bool = True,
        observe: Callable[[Sequence[Request], Sequence[Decision]], None] | None = None,
    ) -> None:
        """`entities` are known besides those of the bundle; `observe` sees what the engine was asked and said."""
        self._observe = observe
        self.engine = policies.engine(epoch, certify)
        hidden = policies.provided
        for path in sorted({path for each in providers for path in each.provides} - hidden, key=str):
            _log.warning("`%s` is not looked up: the policies do not declare it under `provided`", path)
        self._enricher = Enricher(policies, providers) if hidden else None
        known = Entities.merge([policies.entities, entities or Entities()])
        self._scoper = Scoper(policies, attributes(hidden))
        self._searcher = Searcher(
            self,
            policies.allowing,
            known,
            attributes(hidden),
            lambda: ((each.id, each.condition) for each in policies.every_policy),
        )

    @property
    def immediate(self) -> bool:
        """Whether `engine` alone decides: nothing is looked up, and nobody observes."""
        return self._enricher is None and self._observe is None

    async def decide(self, request: Request) -> Decision:
        (decision,) = await self.decide_many([request])
        return decision

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        enricher = self._enricher
        if enricher is None:
            return await self._evaluate(requests)
        enriched = await enricher.enrich(requests)
        decisions = iter(await self._evaluate([each.request for each in enriched if not each.problem]))
        return [
            unavailable(each, self.engine.epoch) if each.problem else enricher.settle(each, next(decisions))
            for each in enriched
        ]

    async def _evaluate(self, requests: Sequence[Request]) -> list[Decision]:
        decisions = await self.engine.decide_many(requests)
        if self._observe is not None:
            self._observe(requests, decisions)
        return decisions

    async def explain(self, request: Request) -> Explanation:
        """Why a request is decided as it is, with what was looked up for it."""
        if self._enricher is None:
            return self.engine.explain(request)
        (enriched,) = await self._enricher.enrich([request])
        if enriched.problem:
            return Explanation(str(request), unavailable(enriched, self.engine.epoch), (), 0)
        return self.engine.explain(enriched.request)

    async def scope(self, query: ScopeQuery, now: float) -> Scope:
        """The objects to which a subject may do an action, as a predicate.

        Raises ScopeRefused, ScopeUnavailable or InvalidRequest.
        """
        request = Request(query.subject, Entity(query.under or "any"), query.action, query.context)
        request.validate()
        until = now + SCOPE_SECONDS
        if self._enricher is not None:
            enriched = await self._enricher.enrich_but(request, "object")
            if enriched.problem:
                raise ScopeUnavailable(enriched.problem)
            request, until = enriched.request, min([until, *enriched.until.values()])
        return self._scoper.scope(request, query.under, self.engine.epoch, until)

    async def search(self, query: SearchQuery) -> SearchPage:
        """One page of the known entities for which a request would be allowed."""
        return await self._searcher.search(query)

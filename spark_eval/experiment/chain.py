"""Availability of the whole chain, computed: NATS servers, the policy store on them, and PDPs.

A question is answered if a server carries it, a PDP decides it, and the PDP's policies are known to be the newest: the
store, a majority of the servers, was there within the lease. What recycles needs neither PDP nor store for as long as
its own lease lasts. The PEP is part of the service that it protects: it fails with it, and is not counted. Failures are
independent but for a share that strikes all of a kind at once, and repair times exponential.
"""

from __future__ import annotations

from itertools import product
from math import comb, exp, floor, log10

import msgspec

from spark_eval.experiment.cell import Share, Span

YEAR_SECONDS = 365.25 * 24 * 3600
SIZES = ((1, 1), (2, 1), (1, 3), (2, 3), (3, 3), (5, 3), (3, 5), (5, 5))
"""How many PDPs and servers the table has."""


class Chain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How often what a decision needs fails, and for how long. The same for servers and PDPs."""

    mttf_hours: Span = 720.0
    mttr_minutes: Span = 10.0
    common: Share = 0.0
    """The share of failures that strike all servers, or all PDPs, at once."""
    lease_seconds: float = 10.0
    """For how long PDPs answer, and caches recycle, after the store was last heard."""

    @property
    def unavailability(self) -> float:
        """The share of time in which one process fails."""
        repair = self.mttr_minutes / 60
        return repair / (self.mttf_hours + repair)


class ChainPoint(msgspec.Struct, frozen=True):
    """What so many PDPs and servers achieve. Shares are of time."""

    pdps: int
    servers: int
    common: float
    unanswered: float
    """Questions that are asked are not answered."""
    unrecycled: float
    """Nor is what a cache knows."""

    @property
    def nines(self) -> int:
        return nines(self.unanswered)


def chain_points(chain: Chain, commons: tuple[float, ...] = (0.0, 0.01, 0.1)) -> list[ChainPoint]:
    """Each size of the chain, for several shares of failures in common."""
    return [
        chain_point(msgspec.structs.replace(chain, common=common), pdps, servers)
        for common, (pdps, servers) in product(commons, SIZES)
    ]


def chain_point(chain: Chain, pdps: int, servers: int) -> ChainPoint:
    """What so many achieve."""
    carried = 1 - _fewer_than(1, servers, chain)
    majority = _fewer_than(servers // 2 + 1, servers, chain)
    # Of a time that the store is away, only what lies beyond the lease is felt.
    stored = 1 - majority * exp(-chain.lease_seconds / 60 / chain.mttr_minutes)
    decided = 1 - _fewer_than(1, pdps, chain)
    # With a majority there is a server, so that the store's absence includes that of all servers, beyond the lease.
    asked = decided * min(carried, stored)
    return ChainPoint(pdps, servers, chain.common, 1 - asked, 1 - stored)


def nines(unavailable: float) -> int:
    """How many nines an availability has: 2 for 99 %."""
    return floor(-log10(unavailable) + 1e-9) if unavailable > 0 else 99


def _fewer_than(least: int, count: int, chain: Chain) -> float:
    """The probability that fewer than `least` of `count` work."""
    shared = chain.common * chain.unavailability
    own = (chain.unavailability - shared) / (1 - shared)
    alone = sum(comb(count, up) * (1 - own) ** up * own ** (count - up) for up in range(least))
    return shared + (1 - shared) * alone

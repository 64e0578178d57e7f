"""What a PEP answers by itself, loaded only where something is recycled or learned."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING

from authz import PublicKey
from pep.asking import Asker
from sdp_cache import LeaseRules, Recycling

if TYPE_CHECKING:
    from pep.secondary import Secondary


@contextlib.asynccontextmanager
async def recycling_point(
    asker: Asker,
    trusted: Collection[PublicKey],
    recycling: Recycling | None,
    lease: LeaseRules,
    learn: Sequence[str],
) -> AsyncIterator[Secondary | None]:
    """What answers without asking, and learns from others if it is to, for the length of a block."""
    if recycling is None and trusted and not learn:
        yield None
        return
    from pep.secondary import learning, secondary_point  # the caches, which who always asks does not load

    async with contextlib.AsyncExitStack() as stack:
        secondary = await stack.enter_async_context(secondary_point(asker, trusted, recycling, lease))
        if learn:
            await stack.enter_async_context(learning(asker, secondary, learn))
        yield secondary

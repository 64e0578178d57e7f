"""Watches at the gateway: how many there may be, and whose."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing

import pytest

from authfabric.testing import TestedFabric
from authz import Request
from pep.gateway import watching
from pep.gateway.callers import Identified
from pep.gateway.errors import Refused
from pep.gateway.settings import Caller

READ = Request.of("ann", "/notes/1", "read")


async def test_no_caller_takes_all_the_watches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "MAX_EACH", 2)
    people, shop = Caller("people"), Caller("shop")
    watches = watching.Watches(TestedFabric().pep)
    async with AsyncExitStack() as stack:

        async def watch(who: Identified) -> None:
            events = await stack.enter_async_context(aclosing(watches.events(READ, who)))
            assert b'"decision":false' in await anext(events)

        for each in (Identified(people, "mallory"), Identified(shop)):
            await watch(each)
            await watch(each)
            with pytest.raises(Refused, match="you have 2 watches"):
                await watch(each)
        await watch(Identified(people, "ann"))
        monkeypatch.setattr(watching, "MAX_WATCHES", 5)
        with pytest.raises(Refused, match="there are 5 watches"):
            await watch(Identified(people, "bob"))
    await watch(Identified(people, "mallory"))
    await stack.aclose()

"""Many PDPs announce themselves rarely, and are forgotten at once by PEPs when they withdraw."""

from __future__ import annotations

import contextlib
from time import time

import pytest

from authz import Identity
from bus import Connection, Scope
from bus.wire.envelope import pack
from bus.wire.messages import unpack_announcement
from bus.wire.subjects import ANNOUNCE
from pdp.replica.service import Replica
from tests.deciders import Readers
from tests.pep.fabric import asking, serving
from tests.pep.mallory import ROOT, trusting
from tests.waiting import eventually
from tests.warrants import warrant

SALES, ALL = Scope.parse("prefix:/sales"), Scope.parse("domain:default")
PDP, OTHER = Identity.generate(), Identity.generate()


@contextlib.asynccontextmanager
async def hearing(url):
    """The lifetime that each replica has last announced."""
    ttls: dict[bytes, float] = {}

    def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        heard = unpack_announcement(payload)
        ttls[heard.source] = heard.ttl

    async with Connection(url) as bus:
        await bus.listen(ANNOUNCE, hear)
        await bus.flush()
        yield ttls


async def test_the_more_pdps_there_are_the_longer_each_announcement_counts(server):
    async with (
        hearing(server.url) as ttls,
        Connection(server.url) as bus,
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(20):
            await stack.enter_async_context(Replica(bus, Readers(), [ALL]))
        await eventually(lambda: set(ttls.values()) == {9.5})  # each announces itself every 4 s


class TestWithdrawal:
    async def test_whoever_drains_withdraws_what_it_has_announced(self, own_server):
        async with hearing(own_server.url) as ttls:
            async with serving(own_server.url, Readers()):
                await eventually(lambda: list(ttls.values()) == [3.5])
            await eventually(lambda: list(ttls.values()) == [0.0])

    async def test_so_does_whoever_can_decide_no_longer_and_comes_back_with_it(self, own_server):
        able = True
        async with hearing(own_server.url) as ttls, serving(own_server.url, Readers(), able=lambda: able):
            await eventually(lambda: list(ttls.values()) == [3.5])
            able = False
            await eventually(lambda: list(ttls.values()) == [0.0])
            able = True
            await eventually(lambda: list(ttls.values()) == [3.5])

    async def test_a_pep_forgets_it_at_once(self, server):
        own = warrant(ROOT, holder=PDP)
        async with Connection(server.url) as bus, trusting(server.url) as pep:
            bus.send(ANNOUNCE, pack(own.announcement([str(SALES)], 3600.0, time())))
            await eventually(lambda: SALES in pep.asker.scopes)
            bus.send(ANNOUNCE, pack(own.announcement([str(SALES)], 0.0, time())))
            await eventually(lambda: SALES not in pep.asker.scopes)

    @pytest.mark.parametrize("replayed", [True, False], ids=["replayed", "of another"])
    async def test_one_that_is_old_or_of_another_counts_for_nothing(self, server, replayed):
        own, other = warrant(ROOT, holder=PDP), warrant(ROOT, holder=OTHER)
        now = time()
        async with Connection(server.url) as bus, trusting(server.url) as pep:
            bus.send(ANNOUNCE, pack(own.announcement([str(SALES)], 3600.0, now)))
            withdrawal = (own if replayed else other).announcement([str(SALES)], 0.0, now - replayed)
            bus.send(ANNOUNCE, pack(withdrawal))
            bus.send(ANNOUNCE, pack(other.announcement([str(ALL)], 3600.0, now)))
            await eventually(lambda: ALL in pep.asker.scopes)
            assert SALES in pep.asker.scopes

    async def test_others_who_serve_the_same_say_so_soon(self, own_server, monkeypatch):
        monkeypatch.setattr("pdp.replica.announcement.ANNOUNCEMENTS_A_SECOND", 1e-9)  # so that no turn comes
        async with (
            serving(own_server.url, Readers(), "prefix:/sales"),
            serving(own_server.url, Readers(), "prefix:/sales") as leaving,
            asking(own_server.url, "prefix:/sales") as pep,
        ):
            version = pep.asker.scopes.version
            await leaving.drain()
            await eventually(lambda: pep.asker.scopes.version > version)
            await eventually(lambda: SALES in pep.asker.scopes)

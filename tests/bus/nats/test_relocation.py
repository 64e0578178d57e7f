"""Members whose server is cut off from the others go over to another, and find there what they miss.

Two servers that do not know each other are what a cluster looks like that has fallen apart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from authz import Decision, Identity, Reason, Request
from bus import Connection, NatsServer, cluster
from bus.errors import StoreUnavailable
from bus.server.nats_server import free_ports
from pdp.replica.service import CannotDecide
from pep import UNVERIFIED, Enforcer
from sdp_cache import LeaseRules, SecondaryPoint
from sdp_cache.point.feed_service import FeedFollower, Following
from tests.deciders import Readers
from tests.pep.fabric import serving
from tests.sdp_cache.point.test_feed_service import ANN, World
from tests.waiting import PATIENCE, eventually, once_it_works
from tests.warrants import warrant


@contextlib.asynccontextmanager
async def apart() -> AsyncIterator[tuple[NatsServer, NatsServer, str]]:
    """The only server there is, one that can be started, and the address of both."""
    port = free_ports(1)[0]
    async with NatsServer(jetstream=True) as alone:
        other = NatsServer(port=port, jetstream=True)
        try:
            yield alone, other, f"{alone.url},nats://127.0.0.1:{port}"
        finally:
            await other.__aexit__(None, None, None)


async def test_a_pep_whose_server_knows_no_pdp_asks_at_another():
    root = Identity.generate()
    async with (
        apart() as (alone, other, url),
        Enforcer.connect(url, deadline=PATIENCE, trust=[root.public], recycling=None) as pep,
    ):
        assert alone.url.endswith(pep.asker.connection.server)
        await other.start()
        async with serving(other.url, Readers(), authority=warrant(root)):
            decision = await pep.check("alice", "/x", "read")
        assert decision.allowed
        assert other.url.endswith(pep.asker.connection.server)


class Lost(Readers):
    """Has no lease, and gets none."""

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        raise CannotDecide("no lease", Reason.STALE)


async def test_a_pep_whose_server_knows_no_pdp_with_a_lease_asks_at_another():
    root = Identity.generate()
    async with (
        apart() as (alone, other, url),
        serving(alone.url, Lost(), authority=warrant(root)),
        Enforcer.connect(url, deadline=PATIENCE, trust=[root.public], recycling=None) as pep,
    ):
        await other.start()
        async with serving(other.url, Readers(), authority=warrant(root)):
            assert (await pep.check("alice", "/x", "read")).allowed


async def test_a_pep_that_believes_anybody_does_so_too_from_question_to_question():
    async with apart() as (_, other, url), Enforcer.connect(url, deadline=1.0, trust=UNVERIFIED) as pep:
        await other.start()
        async with serving(other.url, Readers()), asyncio.timeout(PATIENCE):
            while not (decision := await pep.check("alice", "/x", "read")).allowed:
                assert decision.reason in (Reason.NO_PDP, Reason.TIMEOUT)


async def test_a_follower_whose_server_is_without_the_majority_of_the_store_follows_at_another():
    """Its server is one of three whose others are stopped; the other address is of a server that has the releases."""
    async with cluster(3, jetstream=True) as (first, second, third), NatsServer(jetstream=True) as whole:
        async with Connection(whole.url) as there:
            released = await World(whole, there).release(None)
        async with Connection(first.url) as bus:
            await once_it_works(lambda: World(first, bus).release(None), StoreUnavailable)
            await second.stop()
            await third.stop()
            bus.url = f"{first.url},{whole.url}"
            point = SecondaryPoint(rules=LeaseRules(60.0))
            following = Following("shop", {ANN.public}, "sdp-1", LeaseRules(60.0))
            async with FeedFollower(bus, point, following) as feed:
                await eventually(lambda: whole.url.endswith(bus.server))
                await eventually(lambda: feed.applied == released and not feed.problem)

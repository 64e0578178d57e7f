"""A server that is cut off from the others keeps nobody out for long."""

from __future__ import annotations

import asyncio
import contextlib
import re

import pytest

from authfabric.chaos.record import Recorder
from authfabric.chaos.testbed.cluster import NODES, running
from authfabric.processes.domain_process import DomainProcess
from authfabric.processes.local_domain import SERVICE
from bus import Connection, NatsServer, NotConnected
from bus.identity import read_credentials
from bus.nats.dialing import UNDECIDED
from pdp.access import AccessRules
from pdp.access.connection_accounting import Share
from tests.secured import PEP, Secured
from tests.waiting import eventually, once_it_works

BRIEFLY = {"connect_seconds": 3.0, "admission_seconds": 3.0}
"""Whoever starts so waits until a server has given up once, after 1.5 s, and not for the service to come back."""


async def test_the_service_leaves_a_server_whose_words_do_not_reach_the_others(tmp_path):
    async with running(tmp_path, Recorder(tmp_path / "record"), small_disk=False) as nodes:
        local, network = nodes.local, nodes.network
        local.hand_out(tmp_path / "pep.json", "pep", SERVICE)
        credentials = read_credentials(tmp_path / "pep.json").credentials
        url = await nodes.connect("access")
        serving = DomainProcess(local.folder, local.issuer, url, AccessRules(), Share(), 3600.0, audit=False)
        async with serving.access() as access:
            cut_off = next(
                node for node in NODES if access._callout.server.endswith(f":{network['access', node].port}")
            )
            others = [node for node in NODES if node != cut_off]
            await nodes.connect("pep")

            async def be_let_in(**options: float) -> None:
                async with Connection(network.urls("pep", others), credentials=credentials, **options):
                    pass

            await be_let_in()
            network.cut([cut_off], others, one_way=True)
            with pytest.raises(NotConnected, match=re.escape(UNDECIDED)):
                await be_let_in(**BRIEFLY)
            await once_it_works(be_let_in, NotConnected)
            three = (access._system_bus, access._callout, access.member)
            await eventually(lambda: len({each.server for each in three}) == 1)


@pytest.fixture
async def pair(tmp_path):
    """Two servers that know nothing of each other, and that no access control service runs at yet."""
    world = Secured(tmp_path)
    extra = world.security.configuration()
    async with (
        NatsServer(jetstream=True, extra=extra) as one,
        NatsServer(jetstream=True, extra=extra) as other,
    ):
        yield world, [one.url, other.url]


async def test_whoever_is_refused_by_one_server_tries_the_others(pair):
    """One of the two servers has no access control service to ask, and refuses everybody."""
    world, (lonely, served) = pair
    world.url = served
    async with world.access(), contextlib.AsyncExitStack() as stack:
        world.url = f"{lonely},{served}"
        clients = [world.connect(PEP) for _ in range(10)]  # each begins with one at random
        await asyncio.gather(*map(stack.enter_async_context, clients))
        assert {client.server for client in clients} == {served.rpartition("/")[2]}


async def test_whoever_is_refused_by_every_server_is_told_so(pair):
    world, urls = pair
    async with contextlib.AsyncExitStack() as stack:
        services = []
        for world.url in urls:
            services.append(await stack.enter_async_context(world.access()))
        world.url = ",".join(urls)
        with pytest.raises(NotConnected, match="Authorization Violation"):
            await world.connect(world.credentials(seconds=-60)).__aenter__()
        assert [each.refused for each in services] == [1, 1]


async def test_whoever_no_server_has_a_decision_about_is_told_so(pair):
    world, urls = pair
    world.url = ",".join(urls)
    with pytest.raises(NotConnected, match=re.escape(UNDECIDED)):
        await world.connect(PEP, **BRIEFLY).__aenter__()

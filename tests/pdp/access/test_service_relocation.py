"""A server that is cut off from the others keeps nobody out for long."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from authfabric.chaos.record import Recorder
from authfabric.chaos.testbed.cluster import NODES, running
from authfabric.processes.domain_process import DomainProcess
from authfabric.processes.local_domain import SERVICE
from bus import Connection, NatsServer, NotConnected
from bus.identity import read_credentials
from pdp.access import AccessRules
from pdp.access.census import Share
from tests.secured import PEP, Secured
from tests.waiting import eventually, once_it_works


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

            async def be_let_in() -> None:
                async with Connection(network.urls("pep", others), credentials=credentials):
                    pass

            await be_let_in()
            network.cut([cut_off], others, one_way=True)
            with pytest.raises(NotConnected):
                await be_let_in()
            await once_it_works(be_let_in, NotConnected)
            three = (access._system_bus, access._callout, access.member)
            await eventually(lambda: len({each.server for each in three}) == 1)


async def test_whoever_is_refused_by_one_server_tries_the_others(tmp_path):
    """One of the two servers has no access control service to ask, and refuses everybody."""
    world = Secured(tmp_path)
    extra = world.security.configuration()
    async with (
        NatsServer(jetstream=True, extra=extra) as lonely,
        NatsServer(jetstream=True, extra=extra) as served,
    ):
        world.url = served.url
        async with world.access(), contextlib.AsyncExitStack() as stack:
            world.url = f"{lonely.url},{served.url}"
            clients = [world.connect(PEP) for _ in range(10)]  # each begins with one at random
            await asyncio.gather(*map(stack.enter_async_context, clients))
            assert {client.server for client in clients} == {served.url.rpartition("/")[2]}


async def test_whoever_is_refused_by_every_server_is_told_so(tmp_path):
    world = Secured(tmp_path)
    extra = world.security.configuration()
    async with (
        NatsServer(jetstream=True, extra=extra) as one,
        NatsServer(jetstream=True, extra=extra) as other,
    ):
        world.url = f"{one.url},{other.url}"
        with pytest.raises(NotConnected, match="Authorization Violation"):
            await world.connect(PEP).__aenter__()

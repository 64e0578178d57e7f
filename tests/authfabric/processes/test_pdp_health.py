"""A replica's health and metrics are there from its first moment, at the address that it was told."""

from __future__ import annotations

import asyncio
import sys
from time import time

import httpx

from authz import Identity
from bus import Connection
from bus.server.nats_server import free_ports
from pdp.bundle import Bundle, File
from pdp.releases import Publisher
from pep import UNVERIFIED, Enforcer
from tests.waiting import PATIENCE

DOMAIN = "early"
POLICY = "- {uid: all-read, effect: allow, rules: {}, targets: {action_id: read}}"


async def answer(client: httpx.AsyncClient, path: str, status: int) -> str:
    """What a page says, once it has this status."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                found = await client.get(path)
            except httpx.HTTPError:  # it does not listen yet
                found = httpx.Response(0)
            if found.status_code == status:
                return found.text
            await asyncio.sleep(0.02)


async def test_health_is_told_before_there_is_a_release_and_metrics_count_what_was_decided(
    jetstream_server, tmp_path
):
    ann, (port,) = Identity.generate(), free_ports(1)
    url, address = jetstream_server.url, f"127.0.0.1:{port}"
    words = [
        "pdp",
        "serve",
        "--url",
        url,
        "--domain",
        DOMAIN,
        "--trust",
        str(ann.public),
        "--listen",
        address,
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "authfabric",
        *words,
        "--cache",
        str(tmp_path),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://{address}") as client, Connection(url) as bus:
            assert await answer(client, "/healthz", 200) == "ok\n"
            assert (await client.get("/readyz")).status_code == 503
            publisher = Publisher(bus, DOMAIN, ann, (), time)
            await publisher.push(Bundle.of([File("p.yaml", POLICY)]))
            await answer(client, "/readyz", 200)
            async with Enforcer.connect(url, domain=DOMAIN, trust=UNVERIFIED, deadline=PATIENCE) as pep:
                assert (await pep.check("ann", "/x", "read")).allowed
                assert not (await pep.check("ann", "/x", "write")).allowed
            metrics = (await client.get("/metrics")).text
    finally:
        process.terminate()
        await process.wait()
    assert 'authfabric_pdp_outcomes_total{effect="allow",reason="policy"} 1.0' in metrics
    assert 'authfabric_pdp_outcomes_total{effect="deny",reason="no-policy"} 1.0' in metrics
    assert "authfabric_pdp_latency_seconds_count 2.0" in metrics
    assert "authfabric_policy_epoch 1.0" in metrics

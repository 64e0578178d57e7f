"""Past events of a sealed type: each broker gets what it holds keys for, and the servers between them learn nothing."""

from __future__ import annotations

import pytest

from pubsub_core.history.retention import HistorySetting
from tests.pubsub_core.keys.police import NAME, police
from tests.pubsub_core.town import town
from tests.waiting import eventually

SIGHTED = 1893499199.25
PLACE = "Victoria Embankment"
PLATES = ("AE05 XYZ", "LD51 QRS")


@pytest.fixture
async def network(jetstream_server, tmp_path):
    async with town(jetstream_server, tmp_path) as home, police(home) as network:
        yield network


async def replayed(client, filter_: str = "") -> list[dict[str, object]]:
    return [dict(each.attributes) async for each in await client.replay(NAME, filter_)]


async def test_of_the_past_each_broker_reads_what_it_has_keys_for_and_nobody_else_anything(network, tmp_path):
    seen: list[bytes] = []
    await network.bus.listen(">", lambda subject, reply, data, head: seen.append(data))
    await network.begin()
    history = HistorySetting(f"sqlite:///{tmp_path / 'met.db'}", b"h" * 32)
    await network.broker("met", history=history)
    await network.broker("ccs", "numberplate", "sighted")
    await network.broker("stats", "sighted", "location")
    await network.broker("yard")
    for service in network.town.services:
        peers = service.broker.peers
        await eventually(lambda service=service: service.sealing.vault.ring.groups)
        await eventually(lambda peers=peers: len(peers) == 3)
        await eventually(lambda peers=peers: all(each.groups and each.carries for each in peers.values()))
    camera = await network.town.client("camera", "met")
    publisher = await camera.publisher(NAME)
    for plate in PLATES:
        await publisher.publish(numberplate=plate, location=PLACE, sighted=SIGHTED)
    await publisher.flush()
    billing = await network.town.client("billing", "ccs")
    plate = {"numberplate": PLATES[0], "sighted": SIGHTED}
    assert await replayed(billing, "numberplate STARTS WITH 'AE05'") == [plate]
    statistics = await network.town.client("statistics", "stats")
    assert await replayed(statistics, f"location = '{PLACE}'") == [
        {"location": PLACE, "sighted": SIGHTED}
    ] * len(PLATES)
    smith = await network.town.client("smith", "yard")
    assert await replayed(smith) == [{**plate, "location": PLACE}]
    await network.bus.flush()
    everything = b"\n".join(seen)
    assert len(seen) > 50
    for text in (NAME, "numberplate", "AE05", *PLATES, PLACE):
        assert text.encode() not in everything

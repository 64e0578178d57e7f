"""What a broker counts, and when it says that it is well, over HTTP."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from time import monotonic

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bus.nats.probes import SILENT_SECONDS
from bus.runtime.health_server import serve_vitals
from pubsub_core.errors import InvalidEvent
from pubsub_core.server import metrics
from pubsub_core.server.metrics import BrokerMetrics, BrokerVitals
from pubsub_core.types.edit import find
from tests.pubsub_core.town import NEWS, rule, take, wanted
from tests.waiting import PATIENCE, eventually


def fetch(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60.0) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def counted(service) -> dict[str, float]:
    """Everything at /metrics, by name and label."""
    with serve_vitals(BrokerVitals(service), [BrokerMetrics(service)], 0) as port:
        _, text = await asyncio.to_thread(fetch, port, "/metrics")
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    names = [(each.name.removeprefix("authfabric_broker_"), *each.labels.values()) for each in samples]
    return {" ".join(name): each.value for name, each in zip(names, samples, strict=True)}


async def test_a_broker_counts_what_becomes_of_events(place):
    kind = await place.define("News", *NEWS)
    await place.release(
        rule("connect", action_id="connect")
        + rule("write", "[{values: {place: Soho}}]", subject_id="ann")
        + rule("read", "[{hidden: [score]}, {filter: \"headline != 'secret'\"}]", subject_id="bob")
    )
    north, south = await place.broker("north"), await place.broker("south", share=0.0)
    ann, bob, near = [
        await place.client(name, broker)
        for name, broker in (("ann", "north"), ("bob", "south"), ("bob", "north"))
    ]
    far, close = await bob.subscriber(kind.name), await near.subscriber(kind.name)
    publisher = await ann.publisher(kind.name)
    await wanted(publisher)
    peers, other = north.broker.peers, f"south-{place.domain}"  # those of earlier tests are gone by then
    await eventually(lambda: [*peers] == [other] and peers[other].wants)
    ann._outgoing.add(kind, {find(kind, "score").id: "many"})
    with pytest.raises(InvalidEvent):
        await publisher.flush()
    for headline in ("secret", "open"):
        await publisher.publish(headline=headline, place="Leeds", score=1)
    await publisher.flush()
    assert await take(far, 1) == await take(close, 1) == [{"headline": "open", "place": "Soho"}]
    north.broker.setting.rules.context.doubted = {"treating"}
    here, there = await counted(north), await counted(south)
    expected = {
        "published_total": 2, "delivered_total": 1, "forwarded_total": 2, "refused_total type": 1,
        "restricted_total": 3, "sessions": 2, "peers": 1, "lost_total": 0, "held": 0, "doubted": 1,
        "epoch": north.claims.epoch, "dropped_total forged": 0,
    }  # fmt: skip
    assert {name: here[name] for name in expected} == expected
    received = {"received_total": 2, "delivered_total": 1, "proofs_total yes": 0, "proofs_total no": 1}
    assert {name: there[name] for name in received} == received


async def test_a_broker_is_ready_while_events_go_through_it(place, monkeypatch):
    north = await place.broker("north")
    await eventually(lambda: not north.broker.held)
    vitals = BrokerVitals(north)
    with serve_vitals(vitals, [], 0) as port:

        async def answers() -> list[int]:
            return [(await asyncio.to_thread(fetch, port, path))[0] for path in ("/healthz", "/readyz")]

        before = north.probes.heard_at
        await eventually(lambda: north.probes.heard_at > before)
        assert await answers() == [200, 200]
        north.broker.hold()
        assert await answers() == [200, 503]
        north.broker.release()
        before = north.probes.heard_at
        await eventually(lambda: north.probes.heard_at > before)
        monkeypatch.setattr(metrics, "monotonic", lambda: monotonic() + SILENT_SECONDS + 60)
        assert await answers() == [503, 503]


@pytest.mark.parametrize("deaf", [0, 1])
async def test_a_broker_is_not_ready_while_one_of_its_connections_hears_nothing(place, deaf, caplog):
    """The server answers its pings, and it says that it is connected; what is sent to it does not arrive."""
    north = await place.broker("north")
    both = north._rights._pep.asker.connection, north._home
    assert both[0] is not both[1]
    (listening,) = [
        each for each in both[deaf]._subscriptions if each.subject.startswith(both[deaf]._replies.place)
    ]
    with serve_vitals(BrokerVitals(north), [], 0) as port:
        await answer(port, 200)
        await both[deaf]._client.unlisten(listening.number)
        await answer(port, 503)
        assert all(each.ready for each in both)
        await both[deaf].renew()
        await answer(port, 200)
    assert "does not come back" in caplog.text


async def answer(port: int, status: int) -> None:
    """Return when the broker says so of its readiness."""
    async with asyncio.timeout(PATIENCE):
        while (await asyncio.to_thread(fetch, port, "/readyz"))[0] != status:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

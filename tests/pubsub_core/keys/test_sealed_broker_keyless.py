"""Brokers without the keys of a sealed type tell their clients, and deliver what is in clear."""

from __future__ import annotations

import time

import pytest

from authz.spki import Notice
from bus.feeds.revocations import publish_notice
from pubsub_core.client.client import CallRefused
from pubsub_core.errors import InvalidEvent, SessionLost
from pubsub_core.keys import Plan
from tests.pubsub_core.keys.police import NAME, NETWORK
from tests.pubsub_core.keys.test_sealed_broker import (
    PLATES,
    SIGHTED,
    pair_of,
    publish,
    published,
    take,
)
from tests.waiting import eventually


async def test_clients_of_a_broker_that_was_refused_the_keys_are_told_and_get_no_empty_events(network):
    _, plates, subscriber = await pair_of(network, "ccs", "numberplate", "sighted")
    revoked = Notice.event(network.pito, network.capabilities["ccs"], int(time.time()))
    await publish_notice(network.bus, revoked)

    async def read_on() -> None:
        while True:
            await plates.publish(numberplate=PLATES[0], sighted=SIGHTED)
            await plates.flush()
            assert await take(subscriber, 1) == [{"numberplate": PLATES[0], "sighted": SIGHTED}]

    with pytest.raises(SessionLost, match=f"`{NAME}` is no longer delivered here, since its broker cannot"):
        await read_on()
    another = await network.town.client("billing", "ccs")
    with pytest.raises(CallRefused, match=r"its broker cannot read it: .*revoked"):
        await another.subscriber(NAME)


async def test_clients_of_a_broker_that_asks_for_no_keys_are_told(network, caplog):
    await network.begin()
    plain = await network.town.broker(
        "plain", network=NETWORK, home=network._home.server.url, names=network.names
    )
    await eventually(lambda: network.kind.version in plain.catalogue)
    subscriber = await (await network.town.client("billing", "plain")).subscriber(NAME)
    await network.broker("met")
    with pytest.raises(
        SessionLost, match=f"`{NAME}` is no longer delivered here, .* told to ask for its keys"
    ):
        await take(subscriber, 1)
    await eventually(lambda: plain.sealing.vault.refusals)
    assert f"what is sealed of `{NAME}` is not delivered here: it is sealed" in caplog.text
    another = await network.town.client("billing", "plain")
    for ask in (another.subscriber(NAME), another.replay(NAME)):
        with pytest.raises(CallRefused, match="its broker cannot read it: it is sealed"):
            await ask


async def test_a_broker_that_asks_for_no_keys_delivers_what_is_in_clear(network):
    network.plan = Plan.each([network.ids["numberplate"], network.ids["location"]])
    await network.begin()
    met = await network.broker("met")
    plain = await network.town.broker(
        "plain", network=NETWORK, home=network._home.server.url, names=network.names
    )
    await eventually(lambda: network.kind.version in plain.catalogue and met.sealing.vault.ring.groups)
    camera, reader = await network.town.client("camera", "met"), await network.town.client("billing", "plain")
    subscriber, plates = await reader.subscriber(NAME), await camera.publisher(NAME)
    await eventually(lambda: plates.interested)
    await plates.publish(numberplate=PLATES[0])
    await publish(plates)
    assert await take(subscriber, 2) == [{"sighted": SIGHTED}] * 2
    assert plain.broker.counts.unreadable == 1


@pytest.mark.parametrize("pace", [0.0, 0.05])
async def test_what_somebody_publishes_once_more_is_not_taken_again(network, pace):
    network.plan = Plan(network.plan.groups, pace=pace)
    services, plates, subscriber = await pair_of(network, "ccs", "numberplate", "sighted")
    captured = await published(network)
    await publish(plates)
    assert [each["numberplate"] for each in await take(subscriber, 2)] == list(PLATES)
    await eventually(lambda: captured)
    before = services[1].broker.counts.replayed
    for subject, data in tuple(captured) * 2:
        network.bus.send(subject, data)
    await network.bus.flush()
    await plates.publish(numberplate="the next")
    await plates.flush()
    assert [each["numberplate"] for each in await take(subscriber, 1)] == ["the next"]
    assert subscriber.unread == 0
    assert services[1].broker.counts.replayed > before


async def test_a_type_that_comes_to_be_sealed_while_brokers_run_is_in_clear_no_more(network):
    await network.publish_type()
    plain = {"network": NETWORK, "home": network._home.server.url, "names": network.names}
    seen: list[bytes] = []
    async with (
        network.town.running("met", **plain, owner_keys=(network.pito,)) as met,
        network.town.connected("camera", "met") as camera,
    ):
        plates = await camera.publisher(NAME)
        async with (
            network.town.running("ccs", **plain) as ccs,
            network.town.connected("billing", "ccs") as billing,
        ):
            await eventually(lambda: ccs._serving.name in met.broker.peers)
            subscriber = await billing.subscriber(NAME)
            await eventually(lambda: plates.interested)
            await publish(plates)
            assert [each["numberplate"] for each in await take(subscriber, 2)] == list(PLATES)
        await eventually(lambda: not plates.interested)
        await network.bus.listen(">", lambda subject, reply, data, head: seen.append(data))
        await network.manage(network.plan)
        await network.broker("ccs", "numberplate", "sighted")
        subscriber = await (await network.town.client("billing", "ccs")).subscriber(NAME)
        await eventually(lambda: plates.interested)
        await plates.publish(numberplate=PLATES[0])
        with pytest.raises(InvalidEvent, match="holds no key"):
            await plates.flush()
    met = await network.broker("met")
    await eventually(lambda: met.sealing.vault.ring.groups)
    plates = await (await network.town.client("camera", "met")).publisher(NAME)
    await eventually(lambda: plates.interested)
    await publish(plates)
    assert [each["numberplate"] for each in await take(subscriber, 2)] == list(PLATES)
    await network.bus.flush()
    assert PLATES[0].encode() not in b"".join(seen)

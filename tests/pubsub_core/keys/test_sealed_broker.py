"""Brokers that seal: each delivers what it holds keys for, and the servers between them learn nothing."""

from __future__ import annotations

import base64
import struct
import time

import msgspec
import pytest

from bus.wire import subjects
from pubsub_core.carriage.parcel import Contents, Parcel, read_parcel, sign_parcel
from pubsub_core.client import publisher
from pubsub_core.client.client import CallRefused
from pubsub_core.errors import InvalidEvent
from pubsub_core.events.batch_signature import Proof, all_digests
from pubsub_core.events.event import Event, encode
from pubsub_core.keys import Plan
from pubsub_core.server import key_service as sealing_service
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.keys.police import NAME, NETWORK
from tests.pubsub_core.town import next_event
from tests.waiting import eventually

SIGHTED = 1893499199.25
PLACE = "Victoria Embankment"
PLATES = ("AE05 XYZ", "LD51 QRS")


async def take(subscriber, count: int) -> list[dict[str, object]]:
    """The next events; where brokers get other keys, some may be missing before them."""
    return [dict((await next_event(subscriber)).attributes) for _ in range(count)]


async def started(network):
    """The three brokers, each with its keys, all of them knowing each other."""
    await network.begin()
    met = await network.broker("met")
    ccs = await network.broker("ccs", "numberplate", "sighted")
    stats = await network.broker("stats", "sighted", "location")
    services = (met, ccs, stats)
    for service in services:
        await eventually(lambda service=service: service.sealing.vault.ring.groups)
        await eventually(lambda service=service: len(service.broker.peers) == 2)
        peers = service.broker.peers
        await eventually(lambda peers=peers: all(peer.groups and peer.carries for peer in peers.values()))
    return services


async def publish(publisher) -> None:
    for plate in PLATES:
        await publisher.publish(numberplate=plate, location=PLACE, sighted=SIGHTED)
    await publisher.flush()


def encodings(text: str) -> list[bytes]:
    """A text in every encoding tried."""
    raw = text.encode()
    wide = [text.encode(each) for each in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le")]
    shifted = [base64.b64encode(bytes(shift) + raw)[4:-4] for shift in range(3)]
    urlsafe = [base64.urlsafe_b64encode(bytes(shift) + raw)[4:-4] for shift in range(3)]
    escaped = "".join(c if c.isalnum() else f"={ord(c):02X}" for c in text).encode()
    found = [*wide, *shifted, *urlsafe, raw.hex().encode(), raw.hex().upper().encode(), raw[::-1], escaped]
    return [each for each in found if len(each) >= 5]


async def test_no_byte_that_crosses_the_servers_tells_a_name_a_value_or_a_filter(network):
    seen: list[bytes] = []
    await network.bus.listen(
        ">", lambda subject, reply, data, head: seen.append(subject.encode() + b" " + data + head)
    )
    await network.bus.flush()
    await started(network)
    clients = {
        name: await network.town.client(name, broker)
        for name, broker in (("camera", "met"), ("smith", "met"), ("billing", "ccs"), ("statistics", "stats"))
    }
    smith = await clients["smith"].subscriber(NAME)
    billing = await clients["billing"].subscriber(NAME, "numberplate STARTS WITH 'AE05'")
    statistics = await clients["statistics"].subscriber(NAME, f"location = '{PLACE}'")
    publisher = await clients["camera"].publisher(NAME)
    peers = network.town.services[0].broker.peers
    await eventually(lambda: sum(network.kind.id in each.wants for each in peers.values()) == 2)
    await publish(publisher)
    plate = {"numberplate": PLATES[0], "sighted": SIGHTED}
    assert await take(smith, 1) == [{**plate, "location": PLACE}]
    assert await take(billing, 1) == [plate]
    assert await take(statistics, 2) == [{"location": PLACE, "sighted": SIGHTED}] * 2
    await network.bus.flush()
    everything = b"\n".join(seen)
    assert len(seen) > 50
    for text in (
        NAME,
        "pito.Numberplate",
        "numberplate",
        "location",
        "sighted",
        *PLATES,
        PLACE,
        "Victoria",
        "AE05",
    ):
        for form in encodings(text):
            assert form not in everything, (text, form)
    for form in (struct.pack(">d", SIGHTED), struct.pack("<d", SIGHTED), str(SIGHTED).encode()):
        assert form not in everything


async def published(network) -> list[tuple[str, bytes]]:
    """What is published for brokers from now on, as it is."""
    seen: list[tuple[str, bytes]] = []
    await network.bus.listen(subjects.parcels(None), lambda to, r, data, h: seen.append((to, data)))
    await network.bus.flush()
    return seen


async def test_events_are_sealed_once_and_published_once_for_brokers_with_different_keys(network):
    await started(network)
    clients = {
        name: await network.town.client(name, at)
        for name, at in (("billing", "ccs"), ("statistics", "stats"))
    }
    subscribers = [await each.subscriber(NAME) for each in clients.values()]
    publisher = await (await network.town.client("camera", "met")).publisher(NAME)
    await eventually(lambda: publisher.interested)
    seen = await published(network)
    await publish(publisher)
    assert await take(subscribers[0], 1) == [{"numberplate": PLATES[0], "sighted": SIGHTED}]
    assert await take(subscribers[1], 1) == [{"location": PLACE, "sighted": SIGHTED}]
    await network.bus.flush()
    parcels = [read_parcel(data).value for _, data in seen]
    assert [each.number for each in parcels] == list(range(1, len(parcels) + 1))
    assert len(parcels) <= 2, "one for each bundle, whoever reads it"
    assert all(each.contents.columns and not each.contents.events for each in parcels)


async def test_at_a_steady_pace_nobody_sees_when_something_was_published(network):
    network.plan = Plan(network.plan.groups, pace=0.05)
    met, _, _ = await started(network)
    camera, billing = await network.town.client("camera", "met"), await network.town.client("billing", "ccs")
    subscriber = await billing.subscriber(NAME)
    publisher = await camera.publisher(NAME)
    await eventually(lambda: publisher.interested)
    everything = await published(network)

    def seen() -> list[Parcel]:
        read = [read_parcel(data) for _, data in everything]
        return [each.value for each in read if each.signer == met._serving.identity.public]

    await eventually(lambda: len(seen()) >= 5)
    silent = len(seen())
    await publish(publisher)
    assert await take(subscriber, 2) == [{"numberplate": plate, "sighted": SIGHTED} for plate in PLATES]
    await eventually(lambda: len(seen()) >= silent + 5)
    assert all(each.box and each.contents is None for each in seen())
    assert len({len(each.box) for each in seen()}) == 1
    assert met.broker.counts.forwarded == 2


async def test_a_broker_that_was_dropped_joins_again_when_it_may(network, monkeypatch):
    monkeypatch.setattr(sealing_service, "REVIEW_SECONDS", 0.1)
    await network.begin()
    met = await network.broker("met")
    await eventually(lambda: met.sealing.vault.ring.groups)
    await met.sealing.keys.leave(network.kind.id)
    assert not met.sealing.vault.ring.groups
    await eventually(lambda: met.sealing.vault.ring.groups)


async def test_a_client_needs_its_own_authority_and_that_of_its_broker(network):
    await started(network)
    billing = await network.town.client("billing", "ccs")
    with pytest.raises(CallRefused, match="`location` may not be read"):
        await billing.subscriber(NAME, "location = 'Soho'")
    camera = await network.town.client("camera", "ccs")
    publisher = await camera.publisher(NAME)
    await publisher.publish(numberplate="AE05 XYZ", location="Soho")
    with pytest.raises(InvalidEvent, match="holds no key"):
        await publisher.flush()
    await publisher.publish(numberplate="AE05 XYZ", sighted=1.0)
    await publisher.flush()


async def test_what_should_be_sealed_and_is_not_is_dropped(network):
    met, ccs, _ = await started(network)
    billing = await network.town.client("billing", "ccs")
    await billing.subscriber(NAME)
    key = met._serving.identity
    event = Event(
        network.kind.id,
        network.kind.version,
        key.public.raw,
        time.time(),
        1,
        {network.ids["numberplate"]: "FORGED"},
    )
    ccs.broker.setting.scrutiny.share = 0.0
    proof = met.broker.setting.vouch(Proof(b"", time.time(), b"n" * 16), all_digests([encode(event)]))
    subject = subjects.parcel(met._serving.domain, network.kind.place)
    parcel = Parcel(subject, 1, 1, time.time(), Contents(proof, [msgspec.Raw(encode(event))]))
    before = ccs.broker.counts.forged
    network.bus.send(subject, sign_parcel(parcel, key))
    await eventually(lambda: ccs.broker.counts.forged == before + 1)
    assert ccs.broker.counts.received == 0


async def test_while_its_keys_are_not_here_nothing_of_a_sealed_type_is_published(network):
    met = await network.broker("met")
    await met.types.publish(SignedType.sign(network.kind, network.pito))
    camera = await network.town.client("camera", "met")
    publisher = await camera.publisher(NAME)
    await publisher.publish(numberplate="AE05 XYZ")
    with pytest.raises(InvalidEvent, match="holds no key"):
        await publisher.flush()
    assert met.broker.counts.published == 0


@pytest.mark.parametrize("pace", [0.0, 0.05])
async def test_a_bundle_as_large_as_it_may_be_goes_through_and_holds_up_nothing(network, monkeypatch, pace):
    monkeypatch.setattr(publisher, "MAX_BUNDLE_BYTES", 523_900)
    network.plan = Plan(network.plan.groups, pace=pace)
    await started(network)
    camera, billing = await network.town.client("camera", "met"), await network.town.client("billing", "ccs")
    subscriber = await billing.subscriber(NAME)
    plates = await camera.publisher(NAME)
    await eventually(lambda: plates.interested)
    for number in range(9):
        await plates.publish(numberplate="A" * 65_000, sighted=float(number))
    await plates.flush()
    assert [each["sighted"] for each in await take(subscriber, 9)] == [float(number) for number in range(9)]


async def test_a_broker_that_was_not_told_that_a_type_is_sealed_sends_nothing_of_it_in_clear(network):
    seen: list[bytes] = []
    await network.bus.listen(">", lambda subject, reply, data, head: seen.append(data))
    await started(network)
    plain = await network.town.broker(
        "plain", network=NETWORK, home=network._home.server.url, names=network.names
    )
    billing = await network.town.client("billing", "ccs")
    await billing.subscriber(NAME)
    await eventually(lambda: network.kind.version in plain.catalogue)
    camera = await network.town.client("camera", "plain")
    plates = await camera.publisher(NAME)
    await eventually(lambda: plates.interested)
    await plates.publish(numberplate=PLATES[0])
    with pytest.raises(InvalidEvent, match="holds no key"):
        await plates.flush()
    assert PLATES[0].encode() not in b"".join(seen)


async def pair_of(network, other: str, *attributes: str):
    """A publisher at one broker that holds all keys, and a subscriber at another that knows of it."""
    await network.begin()
    services = await network.broker("met"), await network.broker(other, *attributes)
    for service in services:
        await eventually(lambda service=service: service.sealing.vault.ring.groups)
    names = [service._serving.name for service in services]
    for service, name in zip(services, reversed(names), strict=True):
        await eventually(lambda peers=service.broker.peers, name=name: name in peers and peers[name].groups)
    camera = await network.town.client("camera", "met")
    reader = await network.town.client("billing", other)
    subscriber, plates = await reader.subscriber(NAME), await camera.publisher(NAME)
    await eventually(lambda: plates.interested)
    return services, plates, subscriber


@pytest.mark.parametrize("first", [0, 1], ids=["publisher's broker first", "subscriber's broker first"])
@pytest.mark.parametrize("attributes", [(), ("numberplate", "sighted")], ids=["the same keys", "fewer keys"])
async def test_no_event_is_emptied_because_the_key_groups_are_others_now(network, first, attributes):
    services, plates, subscriber = await pair_of(network, "ccs", *attributes)
    together = [network.ids["numberplate"], network.ids["sighted"]]
    await network.manage(Plan.shared([together, [network.ids["location"]]]))
    await services[first].sealing._join_group(NAME)
    await publish(plates)
    expected = {"numberplate": PLATES[0], "location": PLACE, "sighted": SIGHTED}
    seen = {name: value for name, value in expected.items() if not attributes or name in attributes}
    assert await take(subscriber, 2) == [seen, {**seen, "numberplate": PLATES[1]}]
    for service in services:
        await eventually(lambda vault=service.sealing.vault: len(vault.plan(network.kind.id).groups) == 2)
    await publish(plates)
    assert await take(subscriber, 2) == [seen, {**seen, "numberplate": PLATES[1]}]

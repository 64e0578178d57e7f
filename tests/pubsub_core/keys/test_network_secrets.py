"""Another secret takes the place of the one that all brokers of a network share, step by step."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pubsub_core.keys import CannotOpen, lock_for_network, unlock_in_network
from pubsub_core.stores.type_store import TypeStore
from pubsub_core.types.registry import Catalogue
from tests.pubsub_core.keys.police import NETWORK
from tests.pubsub_core.keys.test_sealed_broker import PLATES, publish, take
from tests.waiting import eventually

NEW = b"another that all of them share!!"
STEPS = (NETWORK, NETWORK + NEW, NEW + NETWORK, NEW)


def test_the_first_secret_locks_and_any_opens():
    for before, after in pairwise(STEPS):
        for one, other in ((before, after), (after, before)):
            assert unlock_in_network(other, "x", lock_for_network(one, "x", b"data")) == b"data"
    with pytest.raises(CannotOpen):
        unlock_in_network(NEW, "x", lock_for_network(NETWORK, "x", b"data"))
    with pytest.raises(CannotOpen):
        unlock_in_network(NETWORK, "x", lock_for_network(NEW + NETWORK, "x", b"data"))


@pytest.mark.parametrize("step", range(3))
@pytest.mark.parametrize("ahead", [True, False], ids=["publisher ahead", "subscriber ahead"])
async def test_sealed_events_pass_between_a_broker_at_one_step_and_one_at_the_next(network, step, ahead):
    """So brokers may be restarted one after the other: whoever is a step ahead understands the others."""
    await network.begin()
    one, following = STEPS[step], STEPS[step + 1]
    met = await network.broker("met", network=following if ahead else one)
    if step == 2:  # what is stored is under the new secret by now
        store = TypeStore(network.bus, Catalogue(), NEW + NETWORK)
        assert await store.lock_anew() == (1, 0)
    ccs = await network.broker("ccs", "numberplate", "sighted", network=one if ahead else following)
    for service in (met, ccs):
        await eventually(lambda service=service: service.sealing.vault.ring.groups)
        await eventually(lambda service=service: len(service.broker.peers) == 1)
        peers = service.broker.peers
        await eventually(lambda peers=peers: all(peer.groups and peer.carries for peer in peers.values()))
    async with (
        network.town.connected("camera", "met") as camera,
        network.town.connected("billing", "ccs") as billing,
    ):
        subscriber = await billing.subscriber(network.kind.name)
        await publish(await camera.publisher(network.kind.name))
        assert all(each.keys() == {"numberplate", "sighted"} for each in await take(subscriber, len(PLATES)))

"""A town for the tests that need one."""

from __future__ import annotations

import asyncio

import pytest
from nats.js import JetStreamContext

from authz import Identity
from authz.spki import Capability, Kind, Owners, Resource, Validity, encode_chain, parse_authority
from bus import Connection
from bus.wire.subjects import REVOCATIONS
from tests.pubsub_core.town import NEWS, town
from tests.waiting import PATIENCE


@pytest.fixture
async def place(jetstream_server, tmp_path):
    async with town(jetstream_server, tmp_path) as place:
        yield place


@pytest.fixture
async def owned(place):
    """A type whose owner is known, and how to make a client with a capability of that owner."""
    kind = await place.define("News", *NEWS)
    owners = Owners([(Resource(Kind.TYPE, f"{place.domain}.*"), place.key.public)])
    await place.broker("north", owners=owners)

    async def client(name: str, grants: str, identity: Identity | None = None, **validity: int):
        identity = identity or Identity.generate()
        authority = parse_authority(f"type: {kind.name}\n{grants}")
        capability = Capability(place.key.public, identity.public, False, authority, Validity(**validity))
        certificate = capability.sign(place.key)
        chains = (encode_chain((certificate,)),)
        return await place.client(name, "north", identity, chains=chains), certificate

    return kind, client


@pytest.fixture
def slow_revocations(monkeypatch) -> asyncio.Event:
    """The store of revocations answers nobody while this is not set."""
    answers, jetstream = asyncio.Event(), Connection.jetstream
    answers.set()

    def slow(connection: Connection) -> JetStreamContext:
        js = jetstream(connection)
        get_msg = js.get_msg

        async def wait(stream: str, **options):
            if REVOCATIONS in stream:
                await answers.wait()
            return await get_msg(stream, **options)

        js.get_msg = wait  # type: ignore[method-assign]
        return js

    monkeypatch.setattr(Connection, "jetstream", slow)
    return answers


@pytest.fixture(autouse=True)
def _certain(monkeypatch):
    """Tests see to it themselves that brokers know each other; what others know of fluents is waited for."""
    monkeypatch.setattr("pubsub_core.replay.fluent_uncertainty.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr("pubsub_core.replay.fluent_exchange_service.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr("pubsub_core.replay.fluent_uncertainty.HELD_SECONDS", PATIENCE)

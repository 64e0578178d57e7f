"""`authfabric event bridge`: messages of a plain NATS server become events, attribute by attribute."""

from __future__ import annotations

import base64
import json
from time import time

import pytest

from authfabric.processes.launcher import ReplicaProcess
from authz import Identity
from bus import Connection
from pubsub_core.client.profile import ProfileFile, write_profile
from pubsub_core.trust.credential import Credential, issue
from tests.pubsub_core.town import NEWS, take, town


@pytest.fixture
async def place(jetstream_server, tmp_path):
    async with town(jetstream_server, tmp_path) as place:
        yield place


def profile(place, path, name: str = "bridge"):
    key = Identity.generate()
    given = Credential(str(key.public), name, place.domain, time() + 1000)
    credential = base64.b64encode(issue(given, place.key)).decode()
    write_profile(
        path, ProfileFile(name, (f"north-{place.domain}",), key.to_pem().decode(), credential, place.domain)
    )
    return path


async def test_members_that_are_attributes_are_published_and_what_is_no_event_is_counted(
    place, server, tmp_path
):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    events = await (await place.client("ann", "north")).subscriber(kind.name)
    bridge = await ReplicaProcess.launch(
        "bridge",
        [
            "event", "bridge", "plain.news.>", kind.name, "--source", server.url, "--url", place.server.url,
            "--as", str(profile(place, tmp_path / "bridge.json")), "--map", "headline=title",
        ],
    )  # fmt: skip
    try:
        async with Connection(server.url) as plain:
            plain.send("plain.news.a", json.dumps({"title": "hello", "score": 3, "secret": "x"}).encode())
            plain.send("plain.news.b", b"no JSON")
            plain.send("plain.news.b", json.dumps({"other": 1}).encode())
            plain.send("plain.news.c", json.dumps({"title": "again"}).encode())
            await plain.flush()
            assert await take(events, 2) == [{"headline": "hello", "score": 3}, {"headline": "again"}]
    finally:
        assert await bridge.stop() == 0
    assert "2 events published, 2 messages refused, 0 dropped" in bridge.log

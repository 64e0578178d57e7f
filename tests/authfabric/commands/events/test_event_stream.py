"""`authfabric event publish|subscribe|replay|tail`, against a real broker: what they print, and how they refuse."""

from __future__ import annotations

import asyncio
import base64
import json
from time import time

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.commands.events.event_stream import tell_shared
from authz import Identity
from pubsub_core.client.profile import ProfileFile, profile_path, write_profile
from pubsub_core.trust.credential import Credential, issue
from tests.pubsub_core.town import NEWS, rule, take, town


@pytest.fixture
async def place(jetstream_server, tmp_path):
    async with town(jetstream_server, tmp_path) as place:
        yield place


def profile(place, name: str, **more):
    key = Identity.generate()
    given = Credential(str(key.public), name, place.domain, time() + 1000)
    credential = base64.b64encode(issue(given, place.key)).decode()
    broker = f"north-{place.domain}"
    file = ProfileFile(name, (broker,), key.to_pem().decode(), credential, place.domain, **more)
    write_profile(profile_path(name), file)


async def run(place, *words: str, code: int = 0, text: str = "") -> str:
    """What a command prints; it runs aside, since its broker runs here."""
    words = ("event", *words, "--url", place.server.url)
    result = await asyncio.to_thread(CliRunner().invoke, app, words, input=text)
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


async def test_what_is_typed_is_published_and_what_is_refused_says_what_to_do(place):
    kind = await place.define("News", *NEWS)
    await place.release(
        rule("connect", action_id="connect")
        + rule("write", subject_id="ann")
        + rule("read", subject_id="bob")
    )
    await place.broker("north")
    events = await (await place.client("bob", "north")).subscriber(kind.name)
    profile(place, "ann", types=(kind.name,))
    profile(place, "eve", types=(kind.name,))
    assert "published 1 event" in await run(
        place, "publish", kind.name, "headline=a b", "score=3", "--as", "ann"
    )
    lines = '{"score": 1}\n\n{"headline": "x"}\n'
    assert "published 2 events" in await run(place, "publish", kind.name, "--as", "ann", text=lines)
    assert await take(events, 3) == [{"headline": "a b", "score": 3}, {"score": 1}, {"headline": "x"}]
    cloud = {"specversion": "1.0", "id": "1", "source": "/x", "type": kind.name, "data": {"score": 9}}
    await run(place, "publish", kind.name, "--cloudevents", "--as", "ann", text=json.dumps(cloud) + "\n")
    assert await take(events, 1) == [{"score": 9}]
    refused = await run(place, "publish", kind.name, "score=1", "--as", "eve", code=1)
    assert "what eve may is under `clients.eve`" in refused
    wrong = await run(place, "subscribe", kind.name + "s", "--as", "ann", "-n", "1", code=3)
    assert f"did you mean `{kind.name}`?" in wrong
    profile(place, "eva", publishes=(kind.name,))
    wrong = await run(place, "publish", kind.name + "s", "score=1", "--as", "eva", code=3)
    assert f"did you mean `{kind.name}`?" in wrong
    wrong = await run(place, "publish", "Other", "score=1", "--as", "eva", code=3)
    assert "`authfabric type list` shows which there are" in wrong
    long = await run(place, "publish", kind.name, f"headline={'x' * 70_000}", "--as", "ann", code=3)
    assert "must have at most 65536 bytes" in long
    assert "keep the rest elsewhere" in long
    assert "`score` must be a whole number, not `x`" in await run(
        place, "publish", kind.name, "score=x", "--as", "ann", code=3
    )
    bad = '{"score": 1}\n{"scor": 1}\n'
    said = await run(place, "publish", kind.name, "--as", "ann", text=bad, code=3)
    assert "line 2; 1 before it were published" in said
    assert "the profiles here are `ann`, `eva`, `eve`" in await run(
        place, "publish", kind.name, "score=1", "--as", "anna", code=3
    )


async def test_who_reads_a_durable_subscription_that_has_a_reader_is_told_at_once(place, capsys):
    kind = await place.define("Shared", *NEWS)
    await place.release(rule("connect", action_id="connect") + rule("read", subject_id="bob"))
    await place.broker("north")
    client = await place.client("bob", "north")
    await tell_shared(client, "ward")
    assert capsys.readouterr().err == ""
    await client.subscriber(kind.name, durable="ward")
    await tell_shared(client, "ward")
    assert f"`ward` is being read at the broker north-{place.domain}" in capsys.readouterr().err

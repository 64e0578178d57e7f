"""`authfabric event publish|subscribe|replay|tail`, against a real broker: what they print, and how they refuse."""

from __future__ import annotations

import asyncio
import base64
import json
from time import time
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.commands.events.event_stream import _print, tell_shared
from authfabric.commands.events.event_values import gap_document
from authz import Identity
from pdp.bundle import Bundle, File
from pubsub_core import Gap, GapReason
from pubsub_core.client.profile import ProfileFile, profile_path, write_profile
from pubsub_core.history import HistorySetting
from pubsub_core.trust.credential import Credential, issue
from pubsub_core.types import EventType
from tests.pubsub_core.town import NEWS, rule, take, town
from tests.waiting import eventually


@pytest.fixture
async def place(jetstream_server, tmp_path):
    async with town(jetstream_server, tmp_path) as place:
        yield place


def profile(place, name: str, attributes=(), **more):
    key = Identity.generate()
    given = Credential(str(key.public), name, place.domain, time() + 1000, dict(attributes))
    credential = base64.b64encode(issue(given, place.key)).decode()
    broker = f"north-{place.domain}"
    file = ProfileFile(name, (broker,), key.to_pem().decode(), credential, place.domain, **more)
    write_profile(profile_path(name), file)


async def aside(*words: str, text: str = ""):
    """What comes of a command that runs beside the broker that it speaks to."""
    return await asyncio.to_thread(CliRunner().invoke, app, words, input=text)


async def run(place, *words: str, code: int = 0, text: str = "") -> str:
    """What a command prints, or what it says where it fails."""
    result = await aside("event", *words, "--url", place.server.url, text=text)
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


async def test_what_a_durable_subscription_has_printed_does_not_come_again(place):
    """More wait than are acknowledged together, and it ends in the middle of them."""
    kind = await place.define("Shared", *NEWS)
    await place.broker("north")
    profile(place, "bob", types=(kind.name,))
    async with place.connected("bob", "north") as reader:
        await reader.subscriber(kind.name, durable="ward")
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    for number in range(100):
        await publisher.publish(score=number)
    await publisher.flush()
    for expected in (range(75), range(75, 100)):
        options = ["--durable", "ward", "--json", "--as", "bob", "-n", str(len(expected))]
        said = await run(place, "subscribe", kind.name, *options)
        assert [each["attributes"]["score"] for each in lines(said)] == list(expected)


READERS = """
FLUENT closed(place) INITIATED BY {shut}(place) TERMINATED BY {opened}(place) SHARED
all: ALLOW SUBSCRIPTION TO {news} WHERE credentials(user, reader)
past: ALLOW REPLAY OF {news} WHERE credentials(user, reader)
when: ALLOW REPLAY DURING closed WHERE credentials(user, reader)
"""


def lines(printed: str) -> list[dict[str, object]]:
    return [json.loads(each) for each in printed.splitlines()]


async def test_past_events_are_those_of_while_a_fluent_held(place, tmp_path):
    news, shut, opened = [await place.define(each, *NEWS) for each in ("News", "Shut", "Opened")]
    text = READERS.format(news=news.name, shut=shut.name, opened=opened.name)
    plain = "".join(rule(each, action_id=each) for each in ("connect", "advertise", "publish"))
    files = [File("events.yaml", plain), File("events.rules", text)]
    made = await place._publisher.push(Bundle.of(files), force="a town without secrets")
    service = await place.broker(
        "north", history=HistorySetting(f"sqlite:///{tmp_path / 'north.db'}", b"h" * 32)
    )
    await eventually(lambda: service.claims.epoch >= made.released.epoch)
    profile(place, "ann")
    profile(place, "bob", types=(news.name,), attributes={"roles": ["reader"]})
    fluents = service.broker.setting.rules.context.fluents
    told = 0
    for kind, said in ((news, "before"), (shut, ""), (news, "within"), (opened, ""), (news, "after")):
        await run(place, "publish", kind.name, f"headline={said}", "place=soho", "--as", "ann")
        told += kind is not news
        await eventually(lambda told=told: len(fluents) == told)
    words = ("replay", news.name, "--as", "bob", "--json")
    past = lines(await run(place, *words))
    assert [each["attributes"]["headline"] for each in past] == ["before", "within", "after"]
    assert all(each["replayed"] for each in past)
    within = lines(await run(place, *words, "--during", "closed('soho')"))
    assert [each["attributes"]["headline"] for each in within] == ["within"]
    assert lines(await run(place, *words, "--during", "closed('leith')")) == []
    refused = await run(place, *words, "--during", "open('soho')", code=1)
    assert "on `/context/open` must be allowed" in refused


async def test_events_are_printed_as_json_as_cloud_events_and_for_people(place, tmp_path):
    news, other, secret = [await place.define(each, *NEWS) for each in ("News", "Other", "Secret")]
    await place.release(
        rule("connect", action_id="connect")
        + rule("write", subject_id="ann")
        + rule("read", subject_id="bob", resource_id=f"/types/{news.name}")
        + rule("also", "[{attributes: [score]}]", subject_id="bob", resource_id=f"/types/{other.name}")
    )
    await place.broker("north", history=HistorySetting(f"sqlite:///{tmp_path / 'north.db'}", b"h" * 32))
    profile(place, "ann")
    profile(place, "bob", types=(news.name, other.name, secret.name))
    profile(place, "cat")
    for kind, number in ((news, 1), (other, 2), (secret, 3)):
        await run(place, "publish", kind.name, "headline=a [b]", f"score={number}", "--as", "ann")
    first = ("--as", "bob", "--from", "1h", "-n", "1")
    (event,) = lines(await run(place, "subscribe", news.name, *first, "--json"))
    values = {"headline": "a [b]", "score": 1}
    assert (event["type"], event["attributes"], event["replayed"]) == (news.name, values, True)
    (cloud,) = lines(await run(place, "subscribe", news.name, *first, "--cloudevents"))
    assert (cloud["specversion"], cloud["type"], cloud["data"]) == ("1.0", news.name, values)
    assert (cloud["source"], cloud["id"]) == (
        f"urn:authfabric:publisher:{event['publisher']}",
        str(event["sequence"]),
    )
    shown = await run(place, "subscribe", news.name, *first)
    assert shown.endswith('past headline="a [b]" score=1\n')
    both = ("tail", "--as", "bob", "--from", "1h", "-n", "2")
    tailed = {each["type"]: each["attributes"] for each in lines(await run(place, *both, "--json"))}
    assert tailed == {news.name: values, other.name: {"score": 2}}  # policy shows no more to who operates
    text = await run(place, *both)
    assert sorted(each.split(" past ")[1] for each in text.splitlines()) == [
        f'{news.name} headline="a [b]" score=1',
        f"{other.name} score=2",
    ]
    result = await aside("event", *both, "--url", place.server.url)
    assert f"without {secret.name}: " in result.stderr
    one = lines(await run(place, "tail", other.name, *both[1:5], "-n", "1", "--json"))
    assert [each["type"] for each in one] == [other.name]
    assert "subscribes to no type: name one" in await run(place, "tail", "--as", "cat", code=3)


async def test_a_gap_is_no_cloud_event(capfd):
    kind = EventType.new("News", Identity.generate().public, NEWS, uuid4)
    gap = Gap(kind, 1.0, 2.0, 3, GapReason.SLOW_CONSUMER, "too slow")

    async def gaps():
        yield gap

    await _print(gaps(), 0, True, show_type=False)
    assert lines(capfd.readouterr().out) == [gap_document(gap)]
    await _print(gaps(), 0, True, show_type=False, cloud=True)
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", f"gap: {gap}\n")

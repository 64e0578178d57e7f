"""`authfabric event bridge`: messages of a plain NATS server become events, attribute by attribute."""

from __future__ import annotations

import base64
import contextlib
import json
from time import time

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.processes.launcher import ReplicaProcess
from authz import AuthFabricError, Identity
from bus import Connection
from bus.identity import write_private
from pubsub_core.client.profile import ProfileFile, write_profile
from pubsub_core.trust.credential import Credential, issue
from tests.kafka_front import KafkaFront
from tests.pubsub_core.town import NEWS, take, town
from tests.self_signed import self_signed

TOPIC = "plain-news"
EXCLUDING = """
- {uid: rest, effect: allow, rules: {}, targets: {action_id: [connect, subscribe, inspect]}}
- uid: bridged
  effect: allow
  rules: {}
  targets: {action_id: [advertise, publish]}
  obligations: [{filter: score < 10}]
"""


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


@contextlib.asynccontextmanager
async def bridging(place, kind, tmp_path, *words):
    path = tmp_path / "bridge.json"
    process = await ReplicaProcess.launch(
        "bridge",
        [
            "event", "bridge", *words, "--url", place.server.url, "--map", "headline=title",
            "--as", str(path if path.exists() else profile(place, path)),
        ],
    )  # fmt: skip
    try:
        yield process
    finally:
        assert await process.stop() == 0


async def test_members_that_are_attributes_are_published_and_what_is_no_event_is_counted(
    place, server, tmp_path
):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    events = await (await place.client("ann", "north")).subscriber(kind.name)
    words = ["plain.news.>", kind.name, "--source", server.url]
    async with bridging(place, kind, tmp_path, *words) as bridge, Connection(server.url) as plain:
        plain.send("plain.news.a", json.dumps({"title": "hello", "score": 3, "secret": "x"}).encode())
        plain.send("plain.news.b", b"no JSON")
        plain.send("plain.news.b", json.dumps({"other": 1}).encode())
        plain.send("plain.news.b", b'{"title":' + b"[" * 3000 + b"]" * 3000 + b"}")
        plain.send("plain.news.b", b'{"score":' + b"9" * 5000 + b"}")
        plain.send("plain.news.b", json.dumps({"score": {"of": 1}}).encode())
        plain.send("plain.news.c", json.dumps({"title": "again"}).encode())
        await plain.flush()
        assert await take(events, 2) == [{"headline": "hello", "score": 3}, {"headline": "again"}]
    assert "2 events published, 5 messages refused, 0 dropped" in bridge.log


async def test_what_a_restriction_excludes_is_counted_as_refused_and_stops_nothing(place, server, tmp_path):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    await place.release(EXCLUDING)
    events = await (await place.client("ann", "north")).subscriber(kind.name)
    words = ["plain.news", kind.name, "--source", server.url]
    async with bridging(place, kind, tmp_path, *words) as bridge, Connection(server.url) as plain:
        for score in (3, 12, 4):
            plain.send("plain.news", json.dumps({"title": "x", "score": score}).encode())
        await plain.flush()
        assert [each["score"] for each in await take(events, 2)] == [3, 4]
    assert "2 events published, 1 message refused" in bridge.log


@pytest.fixture
def kafka():
    """A producer with a broker: that of librdkafka, which speaks Kafka's protocol over TCP and keeps all in memory."""
    producer = Producer({"bootstrap.servers": "test", "test.mock.num.brokers": 1, "log_level": 0})
    try:
        yield producer
    finally:
        producer.flush()


def address(kafka: Producer) -> str:
    brokers = kafka.list_topics(timeout=10).brokers.values()
    return "kafka://" + ",".join(f"{each.host}:{each.port}" for each in brokers)


def say(kafka: Producer, *messages: object) -> None:
    for each in messages:
        kafka.produce(TOPIC, each if isinstance(each, bytes) else json.dumps(each).encode())
    assert kafka.flush(10) == 0


async def test_a_kafka_topic_is_published_once_by_one_bridge_after_another(place, tmp_path, kafka):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    events = await (await place.client("ann", "north")).subscriber(kind.name)
    words = [TOPIC, kind.name, "--source", address(kafka)]
    say(kafka, {"title": "before", "secret": "x"}, b"no JSON")
    async with bridging(place, kind, tmp_path, *words) as first:
        assert await take(events, 1) == [{"headline": "before"}]
        say(kafka, {"title": "meanwhile", "score": 3})
        assert await take(events, 1) == [{"headline": "meanwhile", "score": 3}]
    assert "2 events published, 1 message refused, 0 dropped" in first.log
    say(kafka, {"title": "after"})
    async with bridging(place, kind, tmp_path, *words) as second:
        assert await take(events, 1) == [{"headline": "after"}]
    assert "1 event published, 0 messages refused, 0 dropped" in second.log


@contextlib.asynccontextmanager
async def secured(kafka, tmp_path, user: str = "", ca: str = "kafka", password: str = "right"):
    """What follows `bridge` on the command line to read by TLS, and by SASL if there is a user."""
    for name in {"kafka", ca}:
        self_signed(tmp_path, name)
    settings = {"security_protocol": "SASL_SSL" if user else "SSL", "ssl_cafile": str(tmp_path / f"{ca}.pem")}
    if user:
        settings |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": user, "sasl_plain_password": password}
    write_private(tmp_path / "kafka.yaml", json.dumps(settings).encode())
    behind = int(address(kafka).rpartition(":")[2])
    async with KafkaFront(behind, user, "right").serving(tmp_path / "kafka.pem") as front:
        yield ["--source", f"kafka://127.0.0.1:{front.port}", "--kafka", str(tmp_path / "kafka.yaml")]


@pytest.mark.parametrize("user", ["", "bridge"], ids=["TLS", "SASL over TLS"])
async def test_a_kafka_topic_is_read_under_encryption(place, tmp_path, kafka, user):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    events = await (await place.client("ann", "north")).subscriber(kind.name)
    say(kafka, {"title": "sealed on the way"})
    async with (
        secured(kafka, tmp_path, user) as words,
        bridging(place, kind, tmp_path, TOPIC, kind.name, *words),
    ):
        assert await take(events, 1) == [{"headline": "sealed on the way"}]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"ca": "another"}, "certificate verify failed"),
        ({"user": "bridge", "password": "wrong"}, "SaslAuthenticationFailed"),
    ],
    ids=["certificate", "password"],
)
async def test_a_kafka_that_is_not_trusted_or_does_not_trust_the_bridge_is_not_read(
    place, tmp_path, kafka, wrong, reason
):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    say(kafka, {"title": "not for us"})
    async with secured(kafka, tmp_path, **wrong) as words:
        with pytest.raises(AuthFabricError) as error:
            async with bridging(place, kind, tmp_path, TOPIC, kind.name, *words):
                pass
    first, second = str(error.value).splitlines()
    assert reason in first
    assert second.endswith(
        f":{words[1].rpartition(':')[2]}` does not let the bridge in: what is logged above says why"
    )


async def test_kafka_out_of_reach_is_said_with_its_address(place, tmp_path):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    words = [
        "event",
        "bridge",
        TOPIC,
        kind.name,
        "--source",
        "kafka://127.0.0.1:1",
        "--url",
        place.server.url,
    ]
    with pytest.raises(Exception, match=r"Kafka at `127\.0\.0\.1:1`"):
        await ReplicaProcess.launch("bridge", [*words, "--as", str(profile(place, tmp_path / "bridge.json"))])


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        ("security_protocol: TLS", 0o600, "Invalid enum value 'TLS'"),
        ("user: ann", 0o600, "unknown field `user`"),
        ("sasl_plain_password: secret", 0o644, "is open to others"),
    ],
)
def test_settings_that_cannot_be_meant_or_that_others_may_read_are_refused(tmp_path, text, mode, problem):
    file = tmp_path / "kafka.yaml"
    file.write_text(text)
    file.chmod(mode)
    words = ["event", "bridge", TOPIC, "News", "--source", "kafka://127.0.0.1:1", "--kafka", str(file)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert problem in done.stderr.replace("\n", " ")

"""Brokers whose clocks are too far apart ignore each other, and both say so by name."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from time import time

import pytest

from authfabric.files import write_encoded
from authfabric.processes.launcher import ReplicaProcess
from authz import Identity
from bus.identity.keystore import create_key
from pubsub_core.carriage.clock_skew import FORGET_SECONDS, MAX_SKEW, MAX_SKEWED, Clocks
from pubsub_core.errors import InvalidEvent
from pubsub_core.trust.vouches import ALL, vouch
from pubsub_core.types import EventType
from tests.pubsub_core.net import net
from tests.pubsub_core.server.test_metrics import counted
from tests.pubsub_core.town import NEWS, Town, take
from tests.waiting import eventually

AHEAD = """
import time

real = time.time
time.time = lambda: real() + {}
"""


@contextlib.asynccontextmanager
async def broker_ahead(
    place: Town, folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> AsyncIterator[ReplicaProcess]:
    """A broker, `south`, in a process whose clock is ahead."""
    identity, name = Identity.generate(), f"south-{place.domain}"
    create_key(folder / "south.key", identity, None)
    write_encoded(folder / "south.vouch", vouch(identity.public, [ALL], time() + 1e5, place.key))
    (folder / "sitecustomize.py").write_text(AHEAD.format(seconds))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    words = ["broker", "serve", "--url", place.server.url, "--name", name, "--domain", place.domain]
    words += ["--key", str(folder / "south.key"), "--vouch", str(folder / "south.vouch")]
    words += ["--clients", f"{place.domain}={place.key.public}", "--known", str(folder / "known")]
    words += ["--trust", str(place.key.public)]
    south = await ReplicaProcess.launch(name, [*words, "--insecure"])
    try:
        yield south
    finally:
        await south.stop()


async def test_two_brokers_whose_clocks_are_an_hour_apart_name_each_other(
    place, tmp_path, monkeypatch, caplog
):
    north = await place.broker("north")
    async with broker_ahead(place, tmp_path, monkeypatch, 3600.0) as south:
        name = f"south-{place.domain}"
        await eventually(lambda: f"the clock of broker {name} is 3,600 s ahead" in caplog.text)
        own = f"the clock of broker north-{place.domain} is 3,600 s behind"
        await eventually(lambda: own in south.log)
        await eventually(lambda: f"{name} is 3,600 s ahead of that of the servers" in south.log)
        numbers = await counted(north)
        assert numbers[f"clock_skew_seconds {name}"] == pytest.approx(3600, abs=MAX_SKEW)
        assert numbers["dropped_total skewed"] >= 1
        assert name not in north.broker.peers


async def at_south(place: Town, kind: EventType) -> None:
    """Publish at the broker whose clock is wrong, and see what is said."""
    async with place.connected("ann", "south") as client:
        publisher = await client.publisher(kind.name)
        await publisher.publish(score=1)
        with pytest.raises(
            InvalidEvent, match=f"broker south-{place.domain} is 45 s ahead of that of the serv"
        ):
            await publisher.flush()


async def test_who_publishes_at_a_broker_whose_events_nobody_would_believe_is_told_of_its_clock(
    place, tmp_path, monkeypatch
):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    reader = await (await place.client("bob", "north")).subscriber(kind.name)
    async with broker_ahead(place, tmp_path, monkeypatch, 45.0), place.connected("cid", "north") as other:
        with monkeypatch.context() as patch:  # a client on the same machine
            for each in ("client", "session", "publisher"):
                patch.setattr(f"pubsub_core.client.{each}.time", lambda: time() + 45.0)
            await at_south(place, kind)
        publisher = await other.publisher(kind.name)
        await publisher.publish(score=2)
        await publisher.flush()
    assert [each["score"] for each in await take(reader, 1)] == [2]


async def test_events_from_a_broker_whose_clock_is_a_little_ahead_arrive(place, tmp_path, monkeypatch):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    reader = await (await place.client("bob", "north")).subscriber(kind.name)
    async with broker_ahead(place, tmp_path, monkeypatch, 20.0):
        publisher = await (await place.client("ann", "south")).publisher(kind.name)
        await publisher.publish(score=1)
        await publisher.flush()
        assert [each["score"] for each in await take(reader, 1)] == [1]


def test_what_a_broker_said_before_is_not_held_against_it_while_it_is_heard():
    made = net("home", "away")
    subject, old = next((to, data) for sender, to, data in made.log if sender == "away" and ".hello." in to)
    for _ in range(12):
        made.pass_()
    made.brokers["home"].presence.hear(subject, old)
    assert made.brokers["home"].counts.skewed == 1
    assert not made.brokers["home"].presence.clocks.skews


def test_clocks_are_told_of_once_and_again_when_they_are_right(caplog):
    clocks = Clocks()
    for second in range(3):
        clocks.ignored("north", 40.0 + second, 100.0 + second)
    assert clocks.skews == {"north": -60.0}
    clocks.believed("north")
    assert [each.getMessage().partition(":")[0] for each in caplog.records] == [
        "the clock of broker north is 60 s behind",
        "the clock of broker north agrees with this one's again",
    ]


def test_strangers_with_wrong_clocks_are_told_of_in_numbers_that_are_bounded_and_forgotten():
    clocks = Clocks()
    clocks.ignored("two\nlines", 0.0, 100.0)
    for number in range(2 * MAX_SKEWED):
        clocks.ignored(f"stranger-{number}", 0.0, 100.0)
    assert len(clocks.skews) == MAX_SKEWED
    assert "two\nlines" not in clocks.skews
    clocks.tick(101.0 + FORGET_SECONDS)
    assert not clocks.skews


def test_brokers_whose_clock_is_set_back_still_see_who_is_there_and_who_is_not():
    made = net("home", "away")
    made.now -= 600
    for _ in range(20):
        made.pass_()
    assert (made.knows("home"), made.knows("away")) == ({"away"}, {"home"})
    for _ in range(20):
        made.pass_(1.0, "home")
    assert made.knows("home") == set()

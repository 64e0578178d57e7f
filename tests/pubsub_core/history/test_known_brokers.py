"""A broker that was restarted waits for those it knew before, and names those that do not come."""

from __future__ import annotations

import asyncio
import contextlib
from time import time

import pytest

from pep.trust_store import UNVERIFIED
from pubsub_core.errors import ReplayIncomplete
from pubsub_core.known_store import KnownBrokers
from pubsub_core.past_service import Pages
from pubsub_core.trust import Web
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.test_replay import ATTRIBUTES, publish, setting
from tests.waiting import eventually

__all__ = ["place"]


async def test_a_broker_that_is_slow_to_come_back_is_waited_for_and_missed_by_name(
    place, tmp_path, monkeypatch
):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    kept, known = setting(f"sqlite:///{tmp_path / 'met.db'}"), tmp_path / "state" / "auditor.known"
    async with contextlib.AsyncExitStack() as first:
        await first.enter_async_context(place.running("met", history=kept))
        await first.enter_async_context(place.running("auditor", known=known))
        async with place.connected("nurse", "met") as nurse:
            await publish(nurse, kind, range(10))
        met = f"met-{place.domain}"
        await eventually(lambda: kind.id in KnownBrokers(known).load(60.0).get(met, ()))
    await place.broker("auditor", known=known)
    auditor = await place.client("auditor", "auditor")
    monkeypatch.setattr("pubsub_core.past_service.PATIENCE_SECONDS", 0.2)
    replayed = await auditor.replay(kind.name)
    with pytest.raises(ReplayIncomplete, match=f"`{met}` did not answer"):
        await asyncio.wait_for(anext(replayed), 60)
    monkeypatch.setattr("pubsub_core.past_service.PATIENCE_SECONDS", 60.0)
    replayed = await auditor.replay(kind.name)
    await place.broker("met", history=kept)
    assert [each["amount"] async for each in replayed] == list(range(10))


async def test_a_broker_that_is_heard_before_it_is_vouched_for_is_waited_for(place, tmp_path, monkeypatch):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    kept, known = setting(f"sqlite:///{tmp_path / 'met.db'}"), tmp_path / "auditor.known"
    met = f"met-{place.domain}"
    KnownBrokers(known).save({met: (time(), frozenset({kind.id}))}, time())
    await place.broker("met", history=kept)
    nurse = await place.client("nurse", "met")
    await publish(nurse, kind, range(10))
    asked, ask = asyncio.Event(), Pages._ask

    async def tell(self, name, wanted):
        asked.set()
        return await ask(self, name, wanted)

    monkeypatch.setattr(Pages, "_ask", tell)
    with monkeypatch.context() as unknown:
        unknown.setattr(Web, "trusts", lambda *_: False)
        service = await place.broker("auditor", known=known)
        await eventually(lambda: met in service.broker.peers)
        auditor = await place.client("auditor", "auditor", trust=UNVERIFIED)
        replayed = await auditor.replay(kind.name)
        await asyncio.wait_for(asked.wait(), 60)
    assert [each["amount"] async for each in replayed] == list(range(10))


def test_who_was_long_away_when_the_file_was_written_is_not_missed(tmp_path):
    path = tmp_path / "known"
    KnownBrokers(path).save({"a": (50.0, frozenset("t")), "b": (95.0, frozenset("tu"))}, 100.0)
    assert KnownBrokers(path).load(20.0) == {"b": frozenset("tu")}
    assert KnownBrokers(None).load(20.0) == KnownBrokers(tmp_path / "none").load(20.0) == {}


def test_a_file_is_written_when_others_are_there_and_now_and_then(tmp_path):
    path = tmp_path / "known"
    known, a = KnownBrokers(path), frozenset("t")
    known.save({"a": (1.0, a)}, 1.0)
    path.unlink()
    known.save({"a": (2.0, a)}, 2.0)
    assert not path.exists()
    known.save({"a": (99.0, a)}, 99.0)
    assert path.exists()
    path.unlink()
    known.save({"a": (100.0, a), "b": (100.0, a)}, 100.0)
    assert path.exists()


def test_a_file_that_cannot_be_read_or_written_is_told_and_stops_nothing(tmp_path, caplog):
    path = tmp_path / "known"
    path.write_bytes(b"nonsense")
    assert KnownBrokers(path).load(20.0) == {}
    KnownBrokers(path / "below").save({"a": (1.0, frozenset())}, 1.0)
    assert "cannot be read" in caplog.text
    assert "cannot be written down" in caplog.text

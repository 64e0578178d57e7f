"""A broker with a history keeps what is published, before anybody sees it; on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import create_engine, text

from pubsub_core.errors import NotKept
from pubsub_core.events.event import Event, encode
from pubsub_core.history.at_rest import EventCipher
from pubsub_core.history.history_keys import HistoryKeys
from pubsub_core.history.recorder_service import _Job, recording
from pubsub_core.history.retention import HistorySetting, KeepRule, Search
from pubsub_core.history.storage.reading import Reading
from pubsub_core.history.storage.store import HistoryStore
from pubsub_core.types.edit import Retyped, apply, find
from pubsub_core.types.event_type import AttributeType
from pubsub_core.types.registry import Catalogue
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.databases import postgresql, url
from tests.pubsub_core.kinds import catalogue_of, sighting
from tests.waiting import eventually

__all__ = ["place", "postgresql", "url"]

SECRET, OTHER = b"h" * 32, b"o" * 32
ATTRIBUTES = (("drug", "string"), ("amount", "integer"))


def setting(url: str, *rules: KeepRule) -> HistorySetting:
    return HistorySetting(url, SECRET, rules)


def kept(url: str, type_: str) -> list[Event]:
    with HistoryStore(url, EventCipher(SECRET)) as store:
        return store.read(Reading(type_), limit=10_000).events


async def test_what_is_published_is_kept_before_a_subscriber_sees_it(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse, place.connected("clerk", "met") as clerk:
        subscriber = await clerk.subscriber(kind.name)
        publisher = await nurse.publisher(kind.name)
        for number in range(300):
            await publisher.publish(drug="morphine", amount=number)
        seen = await anext(subscriber)
        assert seen.sequence in {each.sequence for each in kept(url, kind.id)}
        await publisher.flush()
    assert [list(each.attributes.values())[1] for each in kept(url, kind.id)] == list(range(300))


async def test_a_type_that_is_not_to_be_kept_is_passed_on_and_not_kept(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url, KeepRule(kind.name, keep=False)))
    async with place.connected("nurse", "met") as nurse:
        subscriber = await nurse.subscriber(kind.name)
        publisher = await nurse.publisher(kind.name)
        await publisher.publish(drug="morphine", amount=1)
        assert (await anext(subscriber))["amount"] == 1
    assert kept(url, kind.id) == []


async def test_what_cannot_be_kept_is_not_passed_on_and_its_publisher_is_told(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse:
        subscriber = await nurse.subscriber(kind.name)
        publisher = await nurse.publisher(kind.name)
        await publisher.publish(drug="morphine", amount=1)
        await publisher.flush()
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE events_{kind.id} RENAME TO elsewhere"))
        await publisher.publish(drug="morphine", amount=2)
        with pytest.raises(NotKept, match="the broker's log says why") as refused:
            await publisher.flush()
        assert kind.id not in str(refused.value)  # nor what else the database says
        with engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE elsewhere RENAME TO events_{kind.id}"))
        engine.dispose()
        await publisher.publish(drug="morphine", amount=3)
        await publisher.flush()
        assert [(await anext(subscriber))["amount"] for _ in range(2)] == [1, 3]
    assert [list(each.attributes.values())[1] for each in kept(url, kind.id)] == [1, 3]


async def test_whatever_goes_wrong_those_who_publish_are_told_and_what_comes_next_is_kept(
    place, tmp_path, monkeypatch
):
    kind, url = await place.define("Prescribe", *ATTRIBUTES), f"sqlite:///{tmp_path / 'met.db'}"
    met = await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse:
        publisher = await nurse.publisher(kind.name)
        with monkeypatch.context() as broken:
            broken.setattr(HistoryStore, "append", lambda self, events, marks: 1 // 0)
            await publisher.publish(drug="morphine", amount=1)
            with pytest.raises(NotKept, match="cannot be kept"):
                await publisher.flush()
        assert met.broker.counts.refused == {"history": 1}
        await publisher.publish(drug="morphine", amount=2)
        await publisher.flush()
    assert [each.attributes for each in kept(url, kind.id)] == [
        dict(zip((each.id for each in kind.attributes), ("morphine", 2), strict=True))
    ]


async def test_what_has_been_kept_long_enough_is_forgotten(url, place, monkeypatch):
    monkeypatch.setattr("pubsub_core.history.recorder_service.PRUNE_SECONDS", 0.0)
    monkeypatch.setattr("pubsub_core.history.recorder_service.PRUNE_ROWS", 7)
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url, KeepRule(seconds=1e-6)))
    async with place.connected("nurse", "met") as nurse:
        publisher = await nurse.publisher(kind.name)
        for number in range(20):
            await publisher.publish(drug="morphine", amount=number)
        await publisher.flush()
        await eventually(lambda: not kept(url, kind.id))


async def test_while_another_key_is_not_here_yet_nothing_is_kept_and_afterwards_all_is(
    url, place, monkeypatch
):
    """Others have taken up the key, and what is old is to be forgotten all the while."""
    monkeypatch.setattr("pubsub_core.history.recorder_service.PRUNE_SECONDS", 0.01)
    keys, rule = [SECRET], KeepRule(seconds=3600.0)
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=HistorySetting(url, SECRET, (rule,), lambda: tuple(keys)))
    async with place.connected("nurse", "met") as nurse:
        publisher = await nurse.publisher(kind.name)
        await publisher.publish(drug="morphine", amount=1)
        await publisher.flush()
        with HistoryStore(url, HistoryKeys.of([SECRET, OTHER])) as shared:
            await asyncio.to_thread(list, shared.rekey())
        await publisher.publish(drug="morphine", amount=2)
        with pytest.raises(NotKept, match="cannot be kept"):
            await publisher.flush()
        keys.append(OTHER)
        await publisher.publish(drug="morphine", amount=3)
        await publisher.flush()
    with HistoryStore(url, HistoryKeys.of([OTHER])) as store:
        events = store.read(Reading(kind.id)).events
    assert [list(each.attributes.values())[1] for each in events] == [1, 3]


async def test_the_history_of_another_broker_is_refused(url, place):
    await place.broker("met", history=setting(url))
    with pytest.raises(Exception, match="is that of `met-"):
        await place.broker("city", history=setting(url))


async def test_what_goes_wrong_with_one_bundle_is_in_the_way_of_no_other(tmp_path):
    told: list[str] = []

    def fail(problem: str) -> None:
        raise ValueError(problem)

    async with recording(setting(f"sqlite:///{tmp_path / 'met.db'}"), "met", Catalogue()) as recorder:
        recorder._finish([_Job((), (), done) for done in (fail, told.append)], "")
    assert told == [""]


async def test_events_are_not_searched_by_an_attribute_that_an_older_version_types_otherwise(tmp_path):
    kind = sighting()
    newer = apply(kind, [Retyped(find(kind, "speed"), AttributeType.STRING)])
    catalogue = catalogue_of(kind, newer)
    rules = (KeepRule(search={"speed": Search.CLEAR, "location": Search.BLIND}),)
    keep = HistorySetting(f"sqlite:///{tmp_path / 'met.db'}", b"h" * 32, rules)
    async with recording(keep, "met", catalogue) as recorder:
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        event = Event(kind.id, kind.version, b"p", 1.0, 1, {find(kind, "speed").id: 31.0})
        recorder.record([(event, encode(event))], told.set_result)
        assert await told == ""
        assert recorder.store.kept[kind.id].searched == {find(kind, "location").id: Search.BLIND}

"""Past events come back to those who may see them, as they may see them now; on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from sqlalchemy import create_engine, text

from pubsub_core.client.client import CallRefused
from pubsub_core.errors import Refused, ReplayIncomplete
from pubsub_core.history.retention import HistorySetting, KeepRule, Search
from pubsub_core.replay.service import Replays
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.databases import postgresql, url
from tests.waiting import eventually

__all__ = ["place", "postgresql", "url"]

ATTRIBUTES = (("drug", "string"), ("patient", "string"), ("amount", "integer"))
SEARCHED = KeepRule(search={"drug": Search.BLIND, "amount": Search.CLEAR})

HIDING = """
- uid: all
  effect: allow
  rules: {}
  targets: {}
- uid: auditors
  effect: allow
  priority: 1
  rules: {}
  targets: {resource_id: "/types/*Prescribe", action_id: replay}
  obligations: [{hidden: [patient], filter: "drug = 'morphine'"}]
"""
NOBODY = """
- {uid: none, effect: deny, rules: {}, targets: {resource_id: "/types/*Prescribe", action_id: replay}}
- {uid: all, effect: allow, rules: {}, targets: {}}
"""


def setting(url: str) -> HistorySetting:
    return HistorySetting(url, b"h" * 32, (SEARCHED,))


async def enforce(place, policies: str) -> None:
    epoch = await place.release(policies)
    await eventually(lambda: all(each.claims.epoch >= epoch for each in place.services))


async def publish(client, kind, numbers) -> None:
    publisher = await client.publisher(kind.name)
    for number in numbers:
        drug = "morphine" if number % 2 else "aspirin"
        await publisher.publish(drug=drug, patient=f"p{number}", amount=number)
    await publisher.flush()


async def test_what_was_published_at_several_brokers_comes_back_in_order_of_time(url, place, tmp_path):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    await place.broker("city", history=setting(f"sqlite:///{tmp_path / 'city.db'}"))
    await place.broker("auditor")
    async with place.connected("n1", "met") as one, place.connected("n2", "city") as two:
        for start in range(0, 600, 200):
            await publish(one, kind, range(start, start + 100))
            await publish(two, kind, range(start + 100, start + 200))
    async with place.connected("auditor", "auditor") as auditor:
        await eventually(lambda: len(place.services[2].broker.peers) == 2)
        replayed = [each async for each in await auditor.replay(kind.name)]
        assert [each["amount"] for each in replayed] == list(range(600))
        assert all(each.replayed for each in replayed)
        middle = replayed[250].time
        part = await auditor.replay(
            kind.name,
            "amount >= 240 and drug = 'morphine'",
            from_=replayed[241].time,
            to=middle,
        )
        assert [each["amount"] async for each in part] == [241, 243, 245, 247, 249]


async def test_past_and_future_are_one_although_events_are_published_meanwhile(url, place, tmp_path):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    await place.broker("city", history=setting(f"sqlite:///{tmp_path / 'city.db'}"))
    async with (
        place.connected("n1", "met") as one,
        place.connected("n2", "city") as two,
        place.connected("auditor", "city") as auditor,
    ):
        await publish(one, kind, range(2000))
        await eventually(lambda: len(place.services[1].broker.peers) == 1)
        publishing = [
            asyncio.create_task(publish(one, kind, range(2000, 6000))),
            asyncio.create_task(publish(two, kind, range(6000, 9000))),
        ]
        subscriber = await auditor.subscriber(kind.name, from_=0.0)
        seen = [(await anext(subscriber))["amount"] for _ in range(9000)]
        await asyncio.gather(*publishing)
        assert sorted(seen) == list(range(9000))
        assert [each for each in seen if each < 6000] == list(range(6000))
        await publish(one, kind, [9000])
        last = await anext(subscriber)
        assert (last["amount"], last.replayed, subscriber.caught_up) == (9000, False, True)
        assert subscriber.missing == ()


async def test_a_replay_about_which_nobody_answers_for_a_while_waits_rather_than_end(url, place, monkeypatch):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    begin = Replays.begin

    def begin_unanswered(replays, session, playback) -> None:
        granted = {id_: (each, playback.asked[id_]) for id_, each in playback.granted.items()}
        begin(replays, session, playback)
        playback.permit({}, answered=False)
        asyncio.get_running_loop().call_later(0.3, playback.permit, granted, True)

    monkeypatch.setattr(Replays, "begin", begin_unanswered)
    async with place.connected("nurse", "met") as nurse:
        await publish(nurse, kind, range(10))
        replayed = [each["amount"] async for each in await nurse.replay(kind.name)]
        assert replayed == list(range(10))


async def test_today_s_policies_are_for_the_past_too(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse:
        await publish(nurse, kind, range(10))
        await enforce(place, HIDING)
        replayed = [each async for each in await nurse.replay(kind.name)]
        assert [each["amount"] for each in replayed] == [1, 3, 5, 7, 9]
        assert all("patient" not in each.attributes for each in replayed)
        await enforce(place, NOBODY)
        with pytest.raises(CallRefused, match="not permitted"):
            await nurse.replay(kind.name)
        with pytest.raises(CallRefused, match="not permitted"):
            await nurse.subscriber(kind.name, from_=0.0)


async def test_a_right_that_is_taken_away_ends_the_replay(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse:
        await publish(nurse, kind, range(4_000))
        replayed = await nurse.replay(kind.name)
        first = [await anext(replayed) for _ in range(10)]
        await enforce(place, NOBODY)
        with pytest.raises(Refused, match="no longer permitted"):
            first += [each async for each in replayed]
        assert replayed.caught_up


async def test_what_is_sent_again_after_the_end_of_a_replay_is_what_may_be_seen_by_then(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    service = await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse:
        await publish(nurse, kind, range(10))
        replayed = await nurse.replay(kind.name)
        (session,) = service.broker.sessions.values()
        await eventually(lambda: bool(session.played))

        def again() -> int:
            dispatcher = service.broker._dispatcher
            return sum(
                each.event is not None and dispatcher._again(session, each) is not None
                for each in session.send_window
            )

        await eventually(lambda: again() == 10)
        await enforce(place, HIDING)
        await eventually(lambda: again() == 5)
        await enforce(place, NOBODY)
        await eventually(lambda: again() == 0)
        assert len([each async for each in replayed]) == 10
        await eventually(lambda: not session.played)


async def test_a_client_that_does_not_read_holds_up_the_reading_of_the_database(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    service = await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse:
        await publish(nurse, kind, range(4_000))
        replayed = await nurse.replay(kind.name)
        await anext(replayed)
        (session,) = service.broker.sessions.values()
        await eventually(lambda: session.past_sent.get(replayed.number) == 2_048)
        assert session.send_window.last + session.send_window.waiting == 2_048
        other = await nurse.replay(kind.name, "amount < 3000")
        assert len([each async for each in other]) == 3_000
        assert len([each async for each in replayed]) == 3_999


async def test_what_does_not_open_is_named_and_the_rest_is_replayed(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse:
        await publish(nurse, kind, range(10))
        engine = create_engine(url)
        with engine.begin() as connection:
            table = f"events_{kind.id}"
            connection.execute(
                text(f"UPDATE {table} SET body = (SELECT body FROM {table} WHERE id = 5) WHERE id = 4")
            )
        engine.dispose()
        replayed = await nurse.replay(kind.name)
        seen = [(await anext(replayed))["amount"] for _ in range(9)]
        assert seen == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        with pytest.raises(ReplayIncomplete, match="1 events that do not open"):
            await anext(replayed)


async def test_a_session_that_is_lost_goes_on_with_what_is_missing(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    service = await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse:
        await publish(nurse, kind, range(3_000))
        replayed, subscriber = await nurse.replay(kind.name), await nurse.subscriber(kind.name, from_=0.0)
        seen = [(await anext(replayed))["amount"] for _ in range(100)]
        joined = [(await anext(subscriber))["amount"] for _ in range(50)]
        for session in list(service.broker.sessions.values()):
            service.broker.close(session)
        seen += [each["amount"] async for each in replayed]
        joined += [(await anext(subscriber))["amount"] for _ in range(2_950)]
        assert seen == joined == list(range(3_000))
        await publish(nurse, kind, [3_000])
        assert (await anext(subscriber))["amount"] == 3_000


async def test_the_past_ends_where_it_was_asked_for(url, place):
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    async with place.connected("nurse", "met") as nurse:
        await publish(nurse, kind, range(10))
        assert [each async for each in await nurse.replay(kind.name, from_=datetime.now(UTC))] == []
        with pytest.raises(ValueError, match="zone"):
            await nurse.replay(kind.name, from_=datetime(2030, 1, 1))


async def test_more_than_can_wait_is_read_from_the_history_instead(url, place, monkeypatch):
    monkeypatch.setattr("pubsub_core.delivery.replay_stream.MOST_WAITING", 20)
    kind = await place.define("Prescribe", *ATTRIBUTES)
    await place.broker("met", history=setting(url))
    async with place.connected("n1", "met") as one, place.connected("auditor", "met") as auditor:
        await publish(one, kind, range(3_000))
        subscriber = await auditor.subscriber(kind.name, from_=0.0)
        first = await anext(subscriber)
        (playback,) = next(
            each.playbacks for each in place.services[0].broker.sessions.values() if each.playbacks
        ).values()
        await publish(one, kind, range(3_000, 3_500))
        await eventually(lambda: playback.joined.later.overflowed)
        seen = [first["amount"]] + [(await anext(subscriber))["amount"] for _ in range(3_499)]
        assert seen == list(range(3_500))
        await publish(one, kind, [3_500])
        assert (await anext(subscriber))["amount"] == 3_500

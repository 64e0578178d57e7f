"""One client has only so much of the past at a time, in however many sessions, and is told so."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from authz import Identity
from pubsub_core.client.client import CallRefused
from pubsub_core.errors import InvalidEvent, ReplayIncomplete
from pubsub_core.events import event as event_module
from pubsub_core.replay import limits as replay_limits
from pubsub_core.replay import page_service as past_service
from pubsub_core.replay import service as replay_service
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.test_rules import EMERGENCY, READING, SLOW, publish, release, setting
from tests.pubsub_core.town import cut
from tests.waiting import PATIENCE, eventually

__all__ = ["place"]

MOST = 3


@pytest.fixture
async def home(place, tmp_path, monkeypatch):
    """A broker, and a type of which five events an hour are replayed, so that a replay of it stays under way."""
    for name in ("MOST_REPLAYS", "MOST_JOINED", "MOST_DUE"):
        monkeypatch.setattr(replay_limits, name, MOST)
    reading = await place.define("Reading", *READING)
    service = await place.broker("home", history=setting(f"sqlite:///{tmp_path / 'home.db'}"))
    all_ = f"all: ALLOW SUBSCRIPTION TO {reading.name}\n"
    await release(place, SLOW.format(reading=reading.name) + all_)
    sensor = await place.client("sensor", "home")
    await publish(sensor, reading, *({"patient": "p", "pulse": n} for n in range(20)))
    return place, service, reading


async def tried(*works) -> tuple[list[object], list[str]]:
    """What came of works done at once, and why the others were refused."""
    done = await asyncio.gather(*works, return_exceptions=True)
    refused = [str(each) for each in done if isinstance(each, CallRefused)]
    return [each for each in done if not isinstance(each, BaseException)], refused


async def test_a_client_has_only_so_many_replays_under_way_in_all_its_sessions(home):
    place, _, reading = home
    key = Identity.generate()
    one, two = [await place.client("ann", "home", key) for _ in range(2)]
    going, refused = await tried(*(each.replay(reading.name) for each in (one, two, one, two, one)))
    assert (len(going), len(refused)) == (MOST, 2)
    assert all("3 replays are under way for this client, the most there may be" in each for each in refused)
    other = await place.client("bob", "home")
    await other.replay(reading.name)
    await going[0].cancel()
    again = await two.replay(reading.name)
    assert again.type is not None


async def test_only_so_many_subscriptions_of_a_client_begin_in_the_past_and_a_lost_session_has_them_again(
    home,
):
    place, service, reading = home
    ann = await place.client("ann", "home")
    going, refused = await tried(*(ann.subscriber(reading.name, from_=0.0) for _ in range(MOST + 1)))
    assert (len(going), len(refused)) == (MOST, 1)
    assert "3 subscriptions of this client began in the past" in refused[0]
    begun = ann.sessions_begun
    for session in list(service.broker.sessions.values()):
        service.broker.close(session)
    await eventually(lambda: ann.sessions_begun > begun)
    (session,) = (each for each in service.broker.sessions.values() if each.token == ann.session)
    assert len(session.subscriptions) == MOST


async def test_rules_send_only_so_much_at_a_time_and_what_cannot_wait_is_told_to_be_missing(
    home, monkeypatch
):
    monkeypatch.setattr("pubsub_core.replay.rule_replays.MOST_OWED", MOST + 1)
    place, service, reading = home
    emergency = await place.define("Emergency", *EMERGENCY)
    await eventually(lambda: any(each.definition.id == emergency.id for each in service.catalogue))
    text = f"{SLOW.format(reading=reading.name)}all: ALLOW SUBSCRIPTION TO {reading.name}\n"
    await release(place, f"{text}before: AUTO REPLAY EVENT TYPE {reading.name} ON {emergency.name}\n")
    ann = await place.client("ann", "home")
    for _ in range(MOST):
        await ann.replay(reading.name)
    subscriber = await ann.subscriber(reading.name)
    send, due = service.broker.rule_replays.begin, []
    service.broker.rule_replays.begin = due.append
    await publish(ann, emergency, {"patient": "p"})
    for number in range(MOST + 2):
        send(replace(due[0], cause=bytes([number])))
        send(replace(due[0], cause=bytes([number])))  # the same again
    seen = [await asyncio.wait_for(anext(subscriber), PATIENCE) for _ in range((MOST + 1) * 20)]
    assert all(each.replayed for each in seen)
    await publish(ann, reading, {"patient": "p", "pulse": 99})
    assert (await asyncio.wait_for(anext(subscriber), PATIENCE))["pulse"] == 99
    assert set(subscriber.missing) == {
        "`before` sends no more: 4 replays wait for this client, the most that may"
    }


async def test_past_events_that_may_no_longer_be_sent_again_leave_room_for_those_that_may(
    place, tmp_path, monkeypatch
):
    monkeypatch.setattr(replay_service, "WINDOW", 8)
    reading = await place.define("Reading", *READING)
    service = await place.broker("home", history=setting(f"sqlite:///{tmp_path / 'home.db'}"))
    rules = f"a: ALLOW SUBSCRIPTION TO {reading.name}\nb: ALLOW REPLAY OF {reading.name}\n"
    await release(place, rules)
    sensor, reader = await place.client("sensor", "home"), await place.client("reader", "home")
    await publish(sensor, reading, *({"patient": "p", "pulse": n} for n in range(20)))
    heard = reader._on_post
    monkeypatch.setattr(reader, "_on_post", lambda payload: None)
    replayed = await reader.replay(reading.name)
    session = service.broker.sessions[reader.session]
    await eventually(lambda: session.past_sent[replayed.number] == 8)
    await release(place, f"{rules}c: RESTRICT DELIVERY OF {reading.name} FILTER pulse >= 10\n")
    monkeypatch.setattr(reader, "_on_post", heard)
    cut(reader)
    async with asyncio.timeout(PATIENCE):
        assert [each["pulse"] async for each in replayed] == list(range(10, 20))


async def test_of_a_rate_an_event_takes_one_whatever_rules_make_of_it(home):
    place, service, reading = home
    names = [(await place.define(name, *READING)).name for name in ("Ward", "Family")]
    text = "".join(
        f"t{n}: TRANSFORM EVENT {reading.name} TO {name} ON notify EXECUTE keep()\n"
        for n, name in enumerate(names)
    )
    await eventually(lambda: {*names} <= {each.definition.name for each in service.catalogue})
    await release(place, SLOW.format(reading=reading.name) + text)
    ann = await place.client("ann", "home")
    replayed = await ann.replay(reading.name)
    assert [(await anext(replayed))["pulse"] for _ in range(10)] == [n // 2 for n in range(10)]
    (pace,) = service._replays.paces.values()
    assert sum(count for _, count in pace._sent) == 5


async def test_nothing_is_kept_in_mind_of_replays_that_are_over(place, tmp_path):
    reading = await place.define("Reading", *READING)
    service = await place.broker("home", history=setting(f"sqlite:///{tmp_path / 'home.db'}"))
    await release(place, f"b: ALLOW REPLAY OF {reading.name}\n")
    ann = await place.client("ann", "home")
    await publish(ann, reading, *({"patient": "p", "pulse": n} for n in range(3)))
    replayed = await ann.replay(reading.name)
    assert [str(each) async for each in replayed] == [
        f"{reading.name}(patient='p', pulse={n})" for n in range(3)
    ]
    session = service.broker.sessions[ann.session]
    await eventually(lambda: replayed.number not in session.past_sent)
    assert not session.played


async def test_what_a_broker_may_have_lost_is_read_again_when_the_past_that_is_under_way_has_ended(home):
    place, service, reading = home
    ann = await place.client("ann", "home")
    subscriber = await ann.subscriber(reading.name, from_=0.0)
    session, replays = service.broker.sessions[ann.session], service._replays
    asked = session.subscriptions[subscriber.number]
    replays._lost[asked] = 5.0
    replays.tick()
    assert list(replays._lost) == [asked]
    replays.stop(session, subscriber.number)
    replays.tick()
    assert not replays._lost
    (again,) = session.playbacks.values()
    assert again.query.start == 5.0


async def test_an_event_that_cannot_be_read_ends_what_comes_from_its_broker_and_is_told(
    place, tmp_path, monkeypatch
):
    reading = await place.define("Reading", *READING)
    await place.broker("home", history=setting(f"sqlite:///{tmp_path / 'home.db'}"))
    await release(place, f"b: ALLOW REPLAY OF {reading.name}\n")
    ann = await place.client("ann", "home")
    await publish(ann, reading, *({"patient": "p", "pulse": n} for n in range(3)))

    def decode(raw):
        event = event_module.decode(raw)
        if 1 in event.attributes.values():
            raise InvalidEvent("pulse", "cannot be read")
        return event

    monkeypatch.setattr(past_service, "decode", decode)
    monkeypatch.setattr(past_service, "decode_all", lambda raws: list(map(decode, raws)))
    replayed = await ann.replay(reading.name)
    assert (await anext(replayed))["pulse"] == 0
    with pytest.raises(ReplayIncomplete, match="has an event that cannot be read"):
        await anext(replayed)

"""What rules were sending goes on after the subscriber's broker was killed, each event once, for its client only."""

from __future__ import annotations

import asyncio

import pytest

from authz import Identity
from authz.predicate import TRUE
from pubsub_core.client.replay_progress import RuleReplays
from pubsub_core.delivery.replay_stream import Query
from pubsub_core.delivery.replay_triggers import Due
from pubsub_core.delivery.subscription_table import Subscription
from pubsub_core.events.event import Event
from pubsub_core.history.fluent_log import superfluous
from pubsub_core.messages import Sent
from pubsub_core.replay.ticket import LASTS_SECONDS, Tickets
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.test_rules import (
    EMERGENCY,
    READING,
    before_marks,
    publish,
    release,
    setting,
)
from tests.pubsub_core.town import next_event
from tests.waiting import PATIENCE, eventually

__all__ = ["place"]

SENDING = """
all: ALLOW SUBSCRIPTION TO {reading}
before: AUTO REPLAY EVENT TYPE {reading} FILTER patient = 'p1' ON {emergency} WHERE patient = 'p1'
after: AUTO REPLAY EVENT TYPE {reading} FILTER patient = 'p2' ON {emergency} WHERE patient = 'p1'
"""
COUNT = 6_000
"""Half of it is more than may be on its way when 500 were read: so neither replay is over by then."""


async def read(subscriber, count: int) -> list[tuple[object, object]]:
    events = [await next_event(subscriber) for _ in range(count)]
    assert all(each.replayed for each in events)
    return [(each["patient"], each["pulse"]) for each in events]


@pytest.fixture
async def alarm(place, tmp_path):
    """A home with a history, and what starts two rules for those who subscribe."""
    reading, emergency = await place.define("Reading", *READING), await place.define("Emergency", *EMERGENCY)
    await place.broker("home", history=setting(f"sqlite:///{tmp_path / 'home.db'}"))
    text = SENDING.format(reading=reading.name, emergency=emergency.name)
    await release(place, text)
    sensor = await place.client("sensor", "home")
    events = ({"patient": f"p{1 + n % 2}", "pulse": n} for n in range(COUNT))
    await publish(sensor, reading, *events)
    return sensor, reading, emergency


async def start(place, alarm, client):
    """A subscription, for which both rules have begun to send."""
    sensor, reading, emergency = alarm
    subscriber = await client.subscriber(reading.name)
    home = place.services[0].broker
    await eventually(lambda: any(emergency.id in each.wants for each in home.peers.values()))
    await publish(sensor, emergency, {"patient": "p1"})
    return subscriber


async def interrupted(place, alarm, key):
    """A subscription whose broker is gone before all was sent, what was read of it, and the broker."""
    async with place.running("ward", identity=key) as ward:
        client = await place.client("carer", "ward")
        subscriber = await start(place, alarm, client)
        seen = await read(subscriber, 500)
        (session,) = ward.broker.sessions.values()
        await eventually(lambda: session.past_sent[subscriber.number] >= 2_048)
    return subscriber, seen, ward


async def test_what_rules_were_sending_goes_on_after_the_broker_was_killed(place, alarm):
    key = Identity.generate()
    subscriber, seen, _ = await interrupted(place, alarm, key)
    await place.broker("ward", identity=key)
    seen += await read(subscriber, COUNT - 500)
    assert sorted(seen) == sorted((f"p{1 + n % 2}", n) for n in range(COUNT))
    for patient in ("p1", "p2"):
        own = [pulse for who, pulse in seen if who == patient]
        assert own == sorted(own)
    await publish(alarm[0], alarm[1], {"patient": "p1", "pulse": COUNT})
    last = await asyncio.wait_for(anext(subscriber), PATIENCE)
    assert (last["pulse"], last.replayed, subscriber.missing) == (COUNT, False, ())
    assert subscriber.call.unfinished == ()


async def test_what_no_rule_would_send_any_more_is_not_sent_on_and_the_reader_is_told(place, alarm):
    sensor, reading, emergency = alarm
    key = Identity.generate()
    subscriber, seen, ward = await interrupted(place, alarm, key)
    place.services.remove(ward)
    text = SENDING.format(reading=reading.name, emergency=emergency.name)
    await release(place, text[: text.index("after:")])
    await place.broker("ward", identity=key)
    while sum(who == "p1" for who, _ in seen) < COUNT // 2:
        seen += await read(subscriber, 1)
    assert [pulse for who, pulse in seen if who == "p1"] == list(range(0, COUNT, 2))
    assert sum(who == "p2" for who, _ in seen) < COUNT // 2
    await publish(sensor, reading, {"patient": "p1", "pulse": COUNT})
    await asyncio.wait_for(anext(subscriber), PATIENCE)
    assert subscriber.missing == ("no rule sends it now",)


@pytest.fixture
async def untold(place, alarm, tmp_path):
    """A subscriber whose broker has heard what starts two rules, and is gone before it told the subscriber of them."""
    again = {"identity": Identity.generate(), "history": setting(f"sqlite:///{tmp_path / 'ward.db'}")}
    async with place.running("ward", **again) as ward:
        client = await place.client("carer", "ward")
        subscriber = await client.subscriber(alarm[1].name)
        ward.broker.flush = lambda session: None
        home = place.services[0].broker
        await eventually(lambda: any(alarm[2].id in each.wants for each in home.peers.values()))
        await publish(alarm[0], alarm[2], {"patient": "p1"})
        owing = ward._replays.rules.owing
        await eventually(lambda: len(tuple(owing)) == 2)
        await eventually(lambda: len(ward.broker.setting.recorder.store.marks()) == 2)
    place.services.remove(ward)
    return subscriber, again


async def test_what_a_rule_has_yet_to_send_outlasts_a_broker_with_a_history_for_its_own_client_and_once(
    place, alarm, untold
):
    subscriber, again = untold
    ward = await place.broker("ward", **again)
    other = await (await place.client("other", "ward")).subscriber(alarm[1].name)
    seen = await read(subscriber, COUNT)
    assert sorted(seen) == sorted((f"p{1 + n % 2}", n) for n in range(COUNT))
    assert (subscriber.missing, other.unread) == ((), 0)
    recorder, owing = ward.broker.setting.recorder, ward._replays.rules.owing
    await eventually(lambda: not tuple(owing))
    await eventually(lambda: len(superfluous(recorder.store.marks(), 0.0)) == len(recorder.store.marks()))
    (debt, _), *_ = recorder.fluents.debts()
    session = next(each for each in ward.broker.sessions.values() if str(each.key) == debt.holder)
    (asked,) = session.subscriptions.values()
    ward.broker.rule_replays.begin(Due(debt.rule, asked, Query(), TRUE, None, debt.cause))
    assert not session.playbacks, "the trigger has come again"
    ward.broker.rule_replays.begin(Due(debt.rule, asked, Query(), TRUE, None, b"another"))
    assert session.playbacks


async def test_what_a_rule_has_to_send_is_kept_before_the_trigger_counts_as_taken(place, alarm, monkeypatch):
    sensor, reading, emergency = alarm
    subscriber = await sensor.subscriber(reading.name)
    gate = before_marks(monkeypatch)
    publishing = asyncio.create_task(publish(sensor, emergency, {"patient": "p1"}))
    (home,) = place.services
    await eventually(lambda: len(tuple(home._replays.rules.owing)) == 2)
    (session,) = home.broker.sessions.values()
    assert session.recording
    assert not publishing.done()
    gate.set()
    await publishing
    assert len(await read(subscriber, COUNT)) == COUNT


def test_what_is_over_is_read_once_although_a_broker_sends_it_again():
    event = Event("t", "v", b"k", 1.0, 1, {})
    replays = RuleReplays()
    replays.follow(Sent(b"ticket"))
    assert replays.is_new(event)
    replays.end(b"ticket")
    replays.expect([Sent(b"ticket")])
    replays.follow(Sent(b"ticket"))
    assert not replays.is_new(event)
    assert not replays.unfinished
    replays.follow(Sent(b"another"))
    assert replays.is_new(event)


def test_a_ticket_is_good_for_its_client_and_its_subscription_and_for_a_day():
    tickets, ann, bob = Tickets(Identity.generate()), Identity.generate().public, Identity.generate().public
    asked = Subscription("s", 1, "t", "a = 1")
    ticket = tickets.issue(ann, Due("r", asked, Query(5.0), TRUE, None), 10.0)
    again = Subscription("other", 2, "t", "a = 1")
    assert tickets.read(ticket, ann, again, 20.0) == ("r", Query(5.0, 10.0))
    wider = Subscription("s", 1, "t", ""), Subscription("s", 1, "u", "a = 1")
    assert [tickets.read(ticket, ann, each, 20.0) for each in wider] == [None, None]
    assert tickets.read(ticket, bob, again, 20.0) is None
    assert tickets.read(ticket, ann, again, 10.0 + LASTS_SECONDS) is None
    assert Tickets(Identity.generate()).read(ticket, ann, again, 20.0) is None
    assert tickets.read(b"anything", ann, again, 20.0) is None

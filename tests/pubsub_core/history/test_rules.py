"""Rules about the past, on real brokers: who may have it replayed, of which times, how fast, and sent by itself."""

from __future__ import annotations

import asyncio
import threading

import pytest

from authz.rules import Rate
from bus.audit import AuditStore, read_record
from pdp.bundle.bundle import Bundle, File
from pubsub_core.client.client import CallRefused
from pubsub_core.history.at_rest import EventCipher
from pubsub_core.history.fluent_log import FluentLog
from pubsub_core.history.retention import HistorySetting, KeepRule
from pubsub_core.history.storage.reading import Reading
from pubsub_core.history.storage.store import HistoryStore
from pubsub_core.replay.rate_limit import Pace
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.databases import postgresql, url
from tests.pubsub_core.town import Town, next_event, rule, take
from tests.waiting import PATIENCE, eventually

__all__ = ["place", "postgresql", "url"]

PLAIN = "".join(rule(each, action_id=each) for each in ("connect", "advertise", "publish"))
PRESCRIBE = (("prescriber", "string"), ("patient", "string"), ("drug", "string"))
CASE = (("prescriber", "string"),)
READING = (("patient", "string"), ("pulse", "integer"))
EMERGENCY = (("patient", "string"),)

AUDIT = """
FLUENT underInvestigation(prescriber)
    INITIATED BY {opened}(prescriber)
    TERMINATED BY {closed}(prescriber)
    SHARED
audit: ALLOW REPLAY OF {prescribe} WHERE sub.prescriber <> NULL AND credentials(user, auditor)
when: ALLOW REPLAY DURING underInvestigation WHERE credentials(user, auditor)
controlled: RESTRICT DELIVERY OF {prescribe} WHERE credentials(user, auditor) FILTER drug IN ('morphine', 'codeine')
hide: TRANSFORM EVENT {prescribe} TO {prescribe} ON notify EXECUTE drop(patient)
    WHERE NOT underInvestigation(prescriber)
"""
HOMECARE = """
FLUENT emergency(patient) INITIATED BY {emergency}(patient) TERMINATED BY {over}(patient) SHARED
all: ALLOW SUBSCRIPTION TO {reading} WHERE sub.patient <> NULL
blur: TRANSFORM EVENT {reading} TO {reading} ON notify EXECUTE round(pulse, 50) WHERE NOT emergency(patient)
before: AUTO REPLAY EVENT TYPE {reading} FROM now() - interval '2 hours' TO now()
    WHERE sub.patient <> NULL FILTER patient = sub.patient ON {emergency} WHERE patient = sub.patient
"""
SLOW = "slow: ALLOW REPLAY OF {reading} AT MOST 5 PER '1 hour'\n"


def setting(url: str) -> HistorySetting:
    return HistorySetting(url, b"h" * 32)


async def release(place: Town, text: str) -> None:
    bundle = Bundle.of([File("events.yaml", PLAIN), File("events.rules", text)])
    epoch = (await place._publisher.push(bundle, force="a town without secrets")).released.epoch
    await eventually(lambda: all(each.claims.epoch >= epoch for each in place.services))


async def publish(client, kind, *events: dict[str, object]) -> None:
    publisher = await client.publisher(kind.name)
    for each in events:
        await publisher.publish(**each)
    await publisher.flush()


def before_marks(monkeypatch) -> threading.Event:
    """What, once set, lets marks be stored."""
    gate, append = threading.Event(), HistoryStore.append

    def append_late(store, events, marks=()):
        assert not marks or gate.wait(PATIENCE)
        return append(store, events, marks)

    monkeypatch.setattr(HistoryStore, "append", append_late)
    return gate


def seen(events) -> list[dict[str, object]]:
    return [dict(each.attributes) for each in events]


@pytest.fixture
async def surgeries(url, place, tmp_path):
    """Two surgeries and an auditor, each with a broker, and what two nurses have prescribed."""
    kinds = [
        await place.define("Prescribe", *PRESCRIBE),
        await place.define("Opened", *CASE),
        await place.define("Closed", *CASE),
    ]
    prescribe, opened, closed = (each.name for each in kinds)
    await place.broker("met", history=setting(url))
    await place.broker("city", history=setting(f"sqlite:///{tmp_path / 'city.db'}"))
    await place.broker("nhs")
    await release(place, AUDIT.format(prescribe=prescribe, opened=opened, closed=closed))
    for number, name in enumerate(("met", "city")):
        async with place.connected(name, name) as surgery:
            for prescriber in ("n1", "n2"):
                for drug in ("morphine", "aspirin"):
                    event = {"prescriber": prescriber, "patient": f"p{number}", "drug": drug}
                    await publish(surgery, kinds[0], event)
    auditor = await place.client("aud", "nhs", role="auditor", roles=["auditor"])
    await eventually(lambda: all(len(each.broker.peers) == 2 for each in place.services))
    return place, auditor, kinds


async def test_an_auditor_sees_patients_of_whom_is_under_investigation_and_must_name_the_prescriber(
    surgeries,
):
    place, auditor, (prescribe, opened, closed) = surgeries
    with pytest.raises(CallRefused, match="not permitted"):
        await auditor.replay(prescribe.name)
    named = "prescriber = 'n1'"
    hidden = [{"prescriber": "n1", "drug": "morphine"}] * 2
    assert seen([each async for each in await auditor.replay(prescribe.name, named)]) == hidden
    clerk = await place.client("clerk", "city")
    await publish(clerk, opened, {"prescriber": "n1"})
    fluents = [each.broker.setting.rules.context.fluents for each in place.services]
    await eventually(lambda: all(map(len, fluents)))
    shown = [{"prescriber": "n1", "patient": f"p{n}", "drug": "morphine"} for n in range(2)]
    assert seen([each async for each in await auditor.replay(prescribe.name, named)]) == shown
    assert (
        seen([each async for each in await auditor.replay(prescribe.name, "prescriber = 'n2'")])
        == [{"prescriber": "n2", "drug": "morphine"}] * 2
    )
    await publish(clerk, closed, {"prescriber": "n1"})
    await eventually(lambda: all(len(each) == 2 for each in fluents))
    assert seen([each async for each in await auditor.replay(prescribe.name, named)]) == hidden


async def test_the_past_is_that_of_the_times_when_a_fluent_held_or_did_not(surgeries):
    place, auditor, (prescribe, opened, closed) = surgeries
    clerk, surgery = await place.client("clerk", "city"), await place.client("met", "met")
    fluents = [each.broker.setting.rules.context.fluents for each in place.services]
    event = {"prescriber": "n1", "drug": "codeine"}
    await publish(clerk, opened, {"prescriber": "n1"})
    await eventually(lambda: all(map(len, fluents)))
    await publish(surgery, prescribe, {**event, "patient": "within"})
    await publish(clerk, closed, {"prescriber": "n1"})
    await eventually(lambda: all(len(each) == 2 for each in fluents))
    await publish(surgery, prescribe, {**event, "patient": "after"})
    fluent, named = "underInvestigation('n1')", "prescriber = 'n1'"
    during = [each async for each in await auditor.replay(prescribe.name, named, during=fluent)]
    outside = [each async for each in await auditor.replay(prescribe.name, named, not_during=fluent)]
    assert [each["drug"] for each in during] == ["codeine"]
    assert [each["drug"] for each in outside] == ["morphine", "morphine", "codeine"]
    with pytest.raises(CallRefused, match="must be a fluent"):
        await auditor.replay(prescribe.name, named, during="underInvestigation(n1)")
    with pytest.raises(CallRefused, match=r"followed here: there are `underInvestigation` of 1"):
        await auditor.replay(prescribe.name, named, during="underInvestigation('n1', 'n2')")


async def test_past_events_are_not_chosen_by_a_fluent_that_no_policy_allows_to_ask_about(surgeries):
    place, auditor, kinds = surgeries
    prescribe, opened, closed = (each.name for each in kinds)
    fluent, named = "underInvestigation('n1')", "prescriber = 'n1'"
    for unknown in ("treating('n1')", "nothing()"):
        with pytest.raises(CallRefused, match=r"on `/context/(treating|nothing)` must be allowed"):
            await auditor.replay(prescribe, named, not_during=unknown)
    running = await auditor.replay(prescribe, named, not_during=fluent)
    assert len([each async for each in running]) == 2
    text = AUDIT.format(prescribe=prescribe, opened=opened, closed=closed)
    await release(place, text.replace("when: ALLOW", "-- ALLOW"))
    with pytest.raises(
        CallRefused, match=r"on `/context/underInvestigation` must be allowed to choose by when it held$"
    ):
        await auditor.replay(prescribe, named, during=fluent)
    assert len([each async for each in await auditor.replay(prescribe, named)]) == 2


async def test_fluents_are_known_again_after_a_restart(url, place):
    opened, closed = [await place.define(each, *CASE) for each in ("Opened", "Closed")]
    prescribe = await place.define("Prescribe", *PRESCRIBE)
    text = AUDIT.format(prescribe=prescribe.name, opened=opened.name, closed=closed.name)
    async with place.running("met", history=setting(url)) as service:
        await release(place, text)
        async with place.connected("clerk", "met") as clerk:
            await publish(clerk, opened, {"prescriber": "n1"})
        assert len(service.broker.setting.rules.context.fluents) == 1
    place.services.clear()
    again = await place.broker("met", history=setting(url))
    assert len(again.broker.setting.rules.context.fluents) == 1


async def test_what_an_event_does_to_fluents_is_kept_before_it_counts_as_taken(url, place, monkeypatch):
    opened, closed = [await place.define(each, *CASE) for each in ("Opened", "Closed")]
    prescribe = await place.define("Prescribe", *PRESCRIBE)
    service = await place.broker("met", history=setting(url))
    await release(place, AUDIT.format(prescribe=prescribe.name, opened=opened.name, closed=closed.name))
    clerk = await place.client("clerk", "met")
    gate = before_marks(monkeypatch)
    publishing = asyncio.create_task(publish(clerk, opened, {"prescriber": "n1"}))
    await eventually(lambda: len(service.broker.setting.rules.context.fluents))
    (session,) = service.broker.sessions.values()
    assert session.recording
    assert not publishing.done()
    gate.set()
    await publishing
    with HistoryStore(url, EventCipher(b"h" * 32)) as store:
        assert len(store.marks()) == 1


async def test_when_fluents_held_is_forgotten_with_the_events_of_that_time(url, place, monkeypatch):
    monkeypatch.setattr("pubsub_core.history.recorder_service.PRUNE_SECONDS", 0.0)
    monkeypatch.setattr("pubsub_core.history.recorder_service.PRUNE_MARKS_SECONDS", 0.0)
    monkeypatch.setattr("pubsub_core.history.fluent_log.KEPT_SECONDS", 0.0)
    opened, closed = [await place.define(each, *CASE) for each in ("Opened", "Closed")]
    prescribe = await place.define("Prescribe", *PRESCRIBE)
    keeping = HistorySetting(url, b"h" * 32, (KeepRule(seconds=1e-6),))
    await place.broker("met", history=keeping)
    await release(place, AUDIT.format(prescribe=prescribe.name, opened=opened.name, closed=closed.name))
    clerk = await place.client("clerk", "met")
    await publish(clerk, opened, {"prescriber": "n1"}, {"prescriber": "n2"})
    await publish(clerk, closed, {"prescriber": "n1"})
    with HistoryStore(url, EventCipher(b"h" * 32)) as store:
        await eventually(lambda: len(store.marks()) == 1)
        (holding,) = FluentLog(store.marks(), lambda mark: None).marks()
    assert (holding.arguments, holding.begins) == (("n2",), True)


async def test_an_emergency_sends_the_details_of_the_hours_before(url, place):
    reading = await place.define("Reading", *READING)
    emergency, over = [await place.define(each, *EMERGENCY) for each in ("Emergency", "Over")]
    await place.broker("home", history=setting(url))
    await place.broker("care")
    text = HOMECARE.format(reading=reading.name, emergency=emergency.name, over=over.name)
    await release(place, text)
    sensor, carer = await place.client("sensor", "home"), await place.client("carer", "care")
    subscriber = await carer.subscriber(reading.name, "patient = 'p1'")
    publisher = await sensor.publisher(reading.name)
    await eventually(lambda: publisher.interested)
    for pulse in (60, 120, 70):
        for patient in ("p1", "p2"):
            await publisher.publish(patient=patient, pulse=pulse)
    await publisher.flush()
    dashboard = [await anext(subscriber) for _ in range(3)]
    assert all(each["pulse"] not in (60, 120, 70) and not each.replayed for each in dashboard)
    peers = place.services[0].broker.peers
    await eventually(lambda: any(emergency.id in each.wants for each in peers.values()))
    await publish(sensor, emergency, {"patient": "p1"})
    details = [await asyncio.wait_for(anext(subscriber), PATIENCE) for _ in range(3)]
    assert [(each["patient"], each["pulse"], each.replayed) for each in details] == [
        ("p1", 60, True),
        ("p1", 120, True),
        ("p1", 70, True),
    ]
    assert [each.time for each in details] == [each.time for each in dashboard]
    await publisher.publish(patient="p1", pulse=71)
    assert (await anext(subscriber))["pulse"] == 71


async def test_a_replayed_event_starts_a_rule_only_if_the_rule_asks_whether_it_is_replayed(url, place):
    reading, emergency = await place.define("Reading", *READING), await place.define("Emergency", *EMERGENCY)
    await place.broker("home", history=setting(url))
    text = f"""
all: ALLOW SUBSCRIPTION TO {reading.name}
past: ALLOW REPLAY OF {emergency.name}
live: AUTO REPLAY EVENT TYPE {reading.name} FILTER patient = 'p1' ON {emergency.name}
told: AUTO REPLAY EVENT TYPE {reading.name} FILTER patient = 'p2' ON {emergency.name} WHERE replayed()
"""
    await release(place, text)
    sensor, carer = await place.client("sensor", "home"), await place.client("carer", "home")
    await publish(sensor, reading, {"patient": "p1", "pulse": 1}, {"patient": "p2", "pulse": 2})
    await publish(sensor, emergency, {"patient": "p1"})
    subscriber = await carer.subscriber(reading.name)
    past = [each async for each in await carer.replay(emergency.name)]
    assert [each["patient"] for each in past] == ["p1"]
    assert (await next_event(subscriber))["patient"] == "p2", "by the rule that was told to"
    await publish(sensor, emergency, {"patient": "p1"})
    assert (await next_event(subscriber))["patient"] == "p1", "by the one that was not"


async def test_a_replay_goes_no_faster_than_a_rule_says(url, place):
    reading = await place.define("Reading", *READING)
    service = await place.broker("home", history=setting(url))
    await release(place, SLOW.format(reading=reading.name))
    sensor = await place.client("sensor", "home")
    await publish(sensor, reading, *({"patient": "p", "pulse": n} for n in range(20)))
    replayed = await sensor.replay(reading.name)
    assert [(await anext(replayed))["pulse"] for _ in range(5)] == list(range(5))
    (session,) = service.broker.sessions.values()
    assert session.past_sent[replayed.number] == 5
    other = await sensor.replay(reading.name)
    assert session.past_sent[other.number] == 0


def test_a_pace_leaves_room_as_time_goes_by():
    pace, rate = Pace(), Rate(5, 60)
    pace.send(3, 0.0)
    assert (pace.room(rate, 1.0), pace.wait(rate, 1.0)) == (2, 59.0)
    pace.send(2, 30.0)
    assert (pace.room(rate, 59.0), pace.room(rate, 60.0), pace.room(rate, 90.0)) == (0, 3, 5)


def test_a_rule_with_a_short_span_forgets_nothing_for_one_with_a_long_span():
    pace, short, long = Pace(), Rate(5, 1), Rate(10, 3600)
    pace.send(5, 0.0)
    pace.send(5, 2.0)
    assert pace.room(long, 2.0) == 0
    assert (pace.room(short, 10.0), pace.room(long, 10.0)) == (5, 0)
    assert (pace.wait(short, 2.0), pace.wait(long, 10.0)) == (1.0, 3590.0)
    assert pace.room(long, 3600.0) == 5


async def sent_under(place: Town, client, free, *asked: str) -> list[int]:
    """How many past events were sent for each replay, when another without a limit that was asked for later is over."""
    replays = [await client.replay(each) for each in asked]
    await publish(client, free, *({"prescriber": "n1"} for _ in range(20)))
    assert len([each async for each in await client.replay(free.name)]) == 20
    (session,) = place.services[0].broker.sessions.values()
    return [session.past_sent[each.number] for each in replays]


async def test_a_replay_of_a_sub_type_goes_no_faster_beside_one_of_its_type(url, place):
    reading, free = await place.define("Reading", *READING), await place.define("Free", *CASE)
    pulse = await place.define("Pulse", parent=reading)
    await place.broker("home", history=setting(url))
    await release(place, f"{SLOW.format(reading=reading.name)} free: ALLOW REPLAY OF {free.name}\n")
    sensor = await place.client("sensor", "home")
    await publish(sensor, pulse, *({"patient": "p", "pulse": n} for n in range(20)))
    assert sum(await sent_under(place, sensor, free, reading.name, pulse.name)) == 5


async def test_an_alternative_without_a_limit_lets_nothing_else_through_faster(url, place):
    reading, free = await place.define("Reading", *READING), await place.define("Free", *CASE)
    await place.broker("home", history=setting(url))
    fast = f"fast: ALLOW REPLAY OF {reading.name} WHERE patient = 'q'\nfree: ALLOW REPLAY OF {free.name}\n"
    await release(place, SLOW.format(reading=reading.name) + fast)
    sensor = await place.client("sensor", "home")
    await publish(sensor, reading, *({"patient": "p", "pulse": n} for n in range(20)))
    assert await sent_under(place, sensor, free, reading.name) == [5]


async def test_nothing_is_sent_by_itself_of_times_that_nobody_knows(url, place):
    reading, emergency = await place.define("Reading", *READING), await place.define("Emergency", *EMERGENCY)
    service = await place.broker("home", history=setting(url))
    text = f"all: ALLOW SUBSCRIPTION TO {reading.name}\nsince: AUTO REPLAY EVENT TYPE {reading.name}"
    await release(place, f"{text} FROM lookup('consent', patient, 'since') ON {emergency.name}\n")
    table = service.broker.setting.rules.context.tables
    table["consent"] = {"p1": {"since": 0}}
    sensor = await place.client("sensor", "home")
    await publish(sensor, reading, {"patient": "p1", "pulse": 60})
    subscriber = await sensor.subscriber(reading.name)
    await publish(sensor, emergency, {"patient": "p2"})
    await publish(sensor, reading, {"patient": "p1", "pulse": 70})
    first = await asyncio.wait_for(anext(subscriber), PATIENCE)
    assert (first["pulse"], first.replayed) == (70, False)
    await publish(sensor, emergency, {"patient": "p1"})
    again = await asyncio.wait_for(anext(subscriber), PATIENCE)
    assert (again["pulse"], again.replayed) == (60, True)


async def test_who_replayed_what_is_in_the_audit_stream(url, place):
    reading = await place.define("Reading", *READING)
    audit = AuditStore(place.bus, place.domain)
    await audit.create()
    await place.broker("home", history=setting(url))
    await release(place, f"slow: ALLOW REPLAY OF {reading.name}\n")
    sensor = await place.client("sensor", "home")
    await publish(sensor, reading, *({"patient": "p", "pulse": n} for n in range(3)))
    assert len([each async for each in await sensor.replay(reading.name, from_=1.0)]) == 3
    records = []

    async def told() -> bool:
        records[:] = [read_record(each) async for page in audit.read() for each in page.records]
        return any(each.disclosed is not None for each in records)

    async with asyncio.timeout(PATIENCE):
        while not await told():  # noqa: ASYNC110 - the audit stream is read, not heard
            await asyncio.sleep(0.02)
    (disclosed,) = [each.disclosed for each in records if each.disclosed is not None]
    assert (disclosed.subject, disclosed.replayed, len(disclosed.events)) == ("sensor", True, 3)
    assert (disclosed.attributes, disclosed.rules) == (("patient", "pulse"), ("slow",))
    asked = [each.request for each in records if each.request and each.request.action.id == "replay"]
    assert asked[0].context == {"from": 1.0}


AS_PUBLISHED = """
a: ALLOW SUBSCRIPTION TO {prescribe}
b: ALLOW REPLAY OF {prescribe}
c: ALLOW SUBSCRIPTION TO {drug}
d: ALLOW REPLAY OF {drug}
hide: TRANSFORM EVENT {prescribe} TO {prescribe} ON publish EXECUTE drop(patient)
also: TRANSFORM EVENT {prescribe} TO {drug} ON publish EXECUTE drop(patient, prescriber)
"""


async def test_what_rules_make_of_an_event_as_it_is_published_is_replayed_and_the_event_is_only_kept(
    url, place
):
    prescribe = await place.define("Prescribe", *PRESCRIBE)
    drug = await place.define("Drug", ("drug", "string"))
    home = await place.broker("home", history=setting(url))
    await release(place, AS_PUBLISHED.format(prescribe=prescribe.name, drug=drug.name))
    client = await place.client("nurse", "home")
    both = [await client.subscriber(each.name, from_=1.0) for each in (prescribe, drug)]
    await publish(client, prescribe, {"prescriber": "n1", "patient": "p1", "drug": "morphine"})
    shown = [{"prescriber": "n1", "drug": "morphine"}, {"drug": "morphine"}]
    assert [await take(each, 1) for each in both] == [[each] for each in shown]
    past = [[each async for each in await client.replay(kind.name)] for kind in (prescribe, drug)]
    assert list(map(seen, past)) == [[each] for each in shown]
    store = home.broker.setting.recorder.store
    (replaced,) = (each.type for each in store.kept.values() if each.name == f"{prescribe.name} (replaced)")
    (event,) = store.read(Reading(replaced)).events
    assert set(event.attributes.values()) == {"n1", "p1", "morphine"}
    for type_ in store.kept:
        list(store.verify(type_))

"""Rules on a real server: they come from the PDPs as obligations, and bind each event."""

from __future__ import annotations

import asyncio
import json

import pytest

from bus.audit import AuditStore, read_record
from pubsub_core.client import CallRefused
from pubsub_core.functions.functions_service import Limits
from pubsub_core.stores.table_store import TableStore
from tests.pubsub_core.town import Town
from tests.waiting import PATIENCE, eventually

PRESCRIBE = [("patient", "string"), ("prescriber", "string"), ("drug", "string"), ("amount", "integer")]
PRESCRIPTION = [("patient", "string"), ("drug", "string"), ("amount", "integer")]
AUTHORISED = [("prescriber", "string"), ("drug", "string")]


def policy(uid: str, action: str, *rules: tuple[str, str], subject: str = "*") -> dict[str, object]:
    """A policy that allows an action, with rules as its obligations."""
    return {
        "uid": uid,
        "effect": "allow",
        "rules": {},
        "targets": {"action_id": action, "subject_id": subject},
        "obligations": [{"interaction": text, "rule": id_} for id_, text in rules],
    }


PLAIN = [policy(each, each) for each in ("connect", "advertise", "publish", "inspect")]


async def release(place: Town, *policies: dict[str, object]) -> int:
    return await place.release(json.dumps([*PLAIN, *policies]))


async def take(subscriber, count: int = 1) -> list[tuple[str, dict[str, object]]]:
    """The next events: the last word of their type's name, and what they hold."""
    events = [await asyncio.wait_for(anext(subscriber), PATIENCE) for _ in range(count)]
    return [(each.type.name.rpartition(".")[2], dict(each.attributes)) for each in events]


async def test_a_prescription_is_another_event_for_the_pharmacy_and_for_the_auditor(place):
    kind = await place.define("Prescribe", *PRESCRIBE)
    sold = await place.define("Prescription", *PRESCRIPTION)
    seen = await place.define("Authorised", *AUTHORISED)
    allow = ("all", f"ALLOW SUBSCRIPTION TO {kind.name}")
    to = f"TRANSFORM EVENT {kind.name} TO"
    await release(
        place,
        policy(
            "pharmacy", "subscribe", allow,
            ("sell", f"{to} {sold.name} ON notify EXECUTE drop(prescriber)"), subject="pat",
        ),
        policy(
            "auditor", "subscribe", allow,
            ("see", f"{to} {seen.name} ON notify EXECUTE drop(patient, amount)"),
            ("controlled", f"RESTRICT DELIVERY OF {kind.name} FILTER drug IN ('morphine', 'codeine')"), subject="aud",
        ),
        policy("doctor", "subscribe", allow, subject="doc"),
    )  # fmt: skip
    await place.broker("north")
    await place.broker("south")
    doctor = await place.client("doc", "north")
    pharmacy, auditor = await place.client("pat", "south"), await place.client("aud", "south")
    sales, audit, own = [await each.subscriber(kind.name) for each in (pharmacy, auditor, doctor)]
    publisher = await doctor.publisher(kind.name)
    await eventually(lambda: publisher.interested)
    first = {"patient": "p1", "prescriber": "doc", "drug": "aspirin", "amount": 2}
    second = {"patient": "p2", "prescriber": "doc", "drug": "morphine", "amount": 1}
    for each in (first, second):
        await publisher.publish(**each)
    await publisher.flush()
    assert await take(own, 2) == [("Prescribe", first), ("Prescribe", second)]
    assert await take(sales, 2) == [
        ("Prescription", {"patient": "p1", "drug": "aspirin", "amount": 2}),
        ("Prescription", {"patient": "p2", "drug": "morphine", "amount": 1}),
    ]
    assert await take(audit) == [("Authorised", {"prescriber": "doc", "drug": "morphine"})]
    assert audit.unread == 0


async def test_a_subscriber_asks_by_what_it_is_shown_and_is_told_so_if_it_asks_by_more(place):
    kind = await place.define("Patient", ("age", "integer"), ("ward", "string"))
    study = await place.define("Study", ("age", "string"), ("ward", "string"))
    blur = f"TRANSFORM EVENT {kind.name} TO {study.name} ON notify EXECUTE bucket(age, 'under 40', 40, 'from 40')"
    allow = ("all", f"ALLOW SUBSCRIPTION TO {kind.name}")
    await release(
        place,
        policy("study", "subscribe", allow, ("blur", blur), subject="rea"),
        policy("care", "subscribe", allow, subject="doc"),
    )
    await place.broker("north")
    doctor, researcher = await place.client("doc", "north"), await place.client("rea", "north")
    with pytest.raises(CallRefused, match=f"show you events of this type as `{study.name}`"):
        await researcher.subscriber(kind.name, "age >= 40")
    with pytest.raises(CallRefused, match="of type integer"):
        await doctor.subscriber(kind.name, "age = 'from 40'")
    wards, older, own = (
        await researcher.subscriber(kind.name, "ward = 'C3'"),
        await researcher.subscriber(kind.name, "age = 'from 40' AND ward = 'C3'"),
        await doctor.subscriber(kind.name, "age >= 40"),
    )
    publisher = await doctor.publisher(kind.name)
    for age, ward in ((39, "C3"), (41, "C4"), (44, "C3")):
        await publisher.publish(age=age, ward=ward)
    await publisher.flush()
    young, old = ("Study", {"age": "under 40", "ward": "C3"}), ("Study", {"age": "from 40", "ward": "C3"})
    assert await take(wards, 2) == [young, old]
    assert await take(older) == [old]
    assert await take(own, 2) == [
        ("Patient", {"age": 41, "ward": "C4"}),
        ("Patient", {"age": 44, "ward": "C3"}),
    ]
    await release(place, policy("study", "subscribe", allow, subject="rea"))
    await publisher.publish(age=45, ward="C3")
    await publisher.publish(age=46, ward="C3")
    await publisher.flush()
    assert await take(wards, 2) == [("Patient", {"age": each, "ward": "C3"}) for each in (45, 46)]
    assert not older.unread, "shown as it is, an event is not what was asked for"


async def test_one_event_may_become_several_for_one_subscriber(place):
    kind = await place.define("Prescribe", *PRESCRIBE)
    sold = await place.define("Prescription", *PRESCRIPTION)
    seen = await place.define("Authorised", *AUTHORISED)
    to = f"TRANSFORM EVENT {kind.name} TO"
    rules = [
        ("sell", f"{to} {sold.name} ON notify EXECUTE drop(prescriber)"),
        ("see", f"{to} {seen.name} ON notify EXECUTE drop(patient, amount) WHERE amount > 1"),
    ]
    await release(place, policy("both", "subscribe", *rules))
    await place.broker("north")
    client = await place.client("doc", "north")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
    for amount in (1, 2, 1):
        await publisher.publish(patient="p", prescriber="d", drug="x", amount=amount)
    await publisher.flush()
    found = await take(subscriber, 4)
    assert [name for name, _ in found] == ["Prescription", "Authorised", "Prescription", "Prescription"]
    assert client.inbox.received == 4


async def test_an_event_is_transformed_as_it_is_published_and_vouched_for_by_the_broker(place):
    kind = await place.define("Prescribe", *PRESCRIBE)
    seen = await place.define("Authorised", *AUTHORISED)
    steps = "EXECUTE drop(patient, amount) WHERE drug = 'morphine'"
    hide = f"TRANSFORM EVENT {kind.name} TO {seen.name} ON publish {steps}"
    await release(place, policy("all", "subscribe"), policy("hide", "transform", ("hide", hide)))
    north, south = await place.broker("north"), await place.broker("south")
    doctor, reader = await place.client("doc", "north"), await place.client("ann", "south")
    originals, others = await reader.subscriber(kind.name), await reader.subscriber(seen.name)
    publisher = await doctor.publisher(kind.name)
    await eventually(
        lambda: publisher.interested and sum(map(len, north.broker.subscriptions._remote.values())) == 2
    )
    for drug in ("morphine", "aspirin"):
        await publisher.publish(patient="p1", prescriber="doc", drug=drug, amount=1)
    await publisher.flush()
    assert await take(others) == [("Authorised", {"prescriber": "doc", "drug": "morphine"})]
    plain = {"patient": "p1", "prescriber": "doc", "drug": "aspirin", "amount": 1}
    assert await take(originals) == [("Prescribe", plain)]
    assert originals.unread == others.unread == 0
    assert south.broker.counts.forged == 0


async def test_what_the_request_fixes_is_told_to_the_pdps(place):
    kind = await place.define("Prescribe", *PRESCRIBE)
    named = policy("named", "subscribe")
    named["rules"] = {"context": {"$.sub.prescriber": {"condition": "Exists"}}}
    await release(place, named)
    await place.broker("north")
    client = await place.client("aud", "north")
    with pytest.raises(Exception, match="not permitted"):
        await client.subscriber(kind.name, "drug = 'x'")
    await client.subscriber(kind.name, "drug = 'x' AND prescriber = 'n1'")


async def test_a_changed_rule_binds_what_is_delivered_from_then_on(place):
    kind = await place.define("Prescribe", *PRESCRIBE)
    few = ("few", f"RESTRICT DELIVERY OF {kind.name} FILTER amount < 3")
    await release(place, policy("all", "subscribe"))
    north = await place.broker("north")
    client = await place.client("doc", "north")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
    await publisher.publish(amount=5)
    await publisher.flush()
    epoch = await release(place, policy("all", "subscribe", few))
    await eventually(lambda: north.claims.epoch == epoch)
    for amount in (5, 1):
        await publisher.publish(amount=amount)
    await publisher.flush()
    assert await take(subscriber, 2) == [("Prescribe", {"amount": 5}), ("Prescribe", {"amount": 1})]
    told, _ = await client.restrictions(kind.name)
    assert told == f"{kind.name}: hybrid; rule few demands amount < 3"


TREATS = "FLUENT treats(doctor, patient) INITIATED BY {0}.Admitted(doctor, patient)"
TREATS += " TERMINATED BY {0}.Discharged(doctor, patient) SHARED"


async def test_delivery_stops_when_the_doctor_stops_treating_the_patient(place):
    kind = await place.define("Reading", ("patient", "string"), ("pulse", "integer"))
    both = [("doctor", "string"), ("patient", "string")]
    admitted, discharged = await place.define("Admitted", *both), await place.define("Discharged", *both)
    await release(
        place,
        policy("own", "subscribe", ("own", f"ALLOW SUBSCRIPTION TO {kind.name} WHERE treats(user, patient)")),
        policy("follow", "observe", ("treats", TREATS.format(place.domain))),
    )
    north, south = await place.broker("north"), await place.broker("south")
    office, doctor = await place.client("office", "north"), await place.client("doc", "south")
    readings = await doctor.subscriber(kind.name)
    begin, end, read = [await office.publisher(each.name) for each in (admitted, discharged, kind)]
    await eventually(lambda: sum(map(len, north.broker.subscriptions._remote.values())) == 3)

    async def measure(pulse: int) -> None:
        await read.publish(patient="p1", pulse=pulse)
        await read.publish(patient="p2", pulse=pulse)
        await read.flush()

    await measure(1)
    await begin.publish(doctor="doc", patient="p1")
    await measure(2)
    await end.publish(doctor="doc", patient="p1")
    await measure(3)
    await begin.publish(doctor="doc", patient="p2")
    await measure(4)
    assert await take(readings, 2) == [
        ("Reading", {"patient": "p1", "pulse": 2}),
        ("Reading", {"patient": "p2", "pulse": 4}),
    ]
    assert readings.unread == 0
    assert south.broker.setting.rules.counts.restricted == 6
    assert south.broker.setting.rules.counts.failed == 0


async def test_a_changed_table_counts_for_the_next_event(place):
    kind = await place.define("Reading", ("patient", "string"), ("ward", "string"))
    richer = await place.define("Placed", ("patient", "string"), ("ward", "string"), ("floor", "integer"))
    rules = [
        ("own", f"ALLOW SUBSCRIPTION TO {kind.name} WHERE ward = lookup('staff', user, 'ward')"),
        (
            "floor",
            f"TRANSFORM EVENT {kind.name} TO {richer.name} ON notify"
            " EXECUTE enrich(floor, 'integer', 'wards', ward) WHERE ward != 'C5'",
        ),
    ]
    await release(place, policy("own", "subscribe", *rules))
    north = await place.broker("north")
    tables = TableStore(place.bus, place.domain, {place.key.public})
    known = north.broker.setting.rules.context.tables
    client = await place.client("ann", "north")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)

    async def publish(ward: str) -> None:
        await publisher.publish(patient="p", ward=ward)
        await publisher.flush()

    await publish("C3")
    assert north.broker.setting.rules.counts.failed == 1, "without its table a rule cannot be judged"
    await tables.put("staff", {"ann": {"ward": "C3"}}, place.key)
    await tables.put("wards", {"C3": {"floor": 3}}, place.key)
    await eventually(lambda: len(known) == 2)
    await publish("C3")
    await publish("C5")
    await tables.put("staff", {"ann": {"ward": "C5"}}, place.key)
    await eventually(lambda: known["staff"]["ann"]["ward"] == "C5")
    await publish("C3")
    await publish("C5")
    assert await take(subscriber, 2) == [
        ("Placed", {"patient": "p", "ward": "C3", "floor": 3}),
        ("Reading", {"patient": "p", "ward": "C5"}),
    ]
    assert subscriber.unread == 0


async def test_a_broker_is_given_functions(place):
    kind = await place.define("Prescribe", *PRESCRIBE)
    await release(
        place,
        policy("some", "subscribe", ("some", f"RESTRICT DELIVERY OF {kind.name} FILTER is_controlled(drug)")),
    )
    limits = Limits(seconds=10.0)
    await place.broker("north", functions="tests.pubsub_core.functions.wayward", limits=limits)
    client = await place.client("aud", "north")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
    for drug in ("aspirin", "codeine", "aspirin", "morphine"):
        await publisher.publish(drug=drug)
    await publisher.flush()
    assert [each["drug"] for _, each in await take(subscriber, 2)] == ["codeine", "morphine"]


async def test_whoever_was_shown_what_under_which_rule_is_in_the_audit_stream(place):
    kind = await place.define("Prescribe", *PRESCRIBE)
    seen = await place.define("Authorised", *AUTHORISED)
    store = AuditStore(place.bus, place.domain)
    await store.create()
    hide = (
        f"TRANSFORM EVENT {kind.name} TO {seen.name} ON notify EXECUTE drop(patient, amount) WHERE amount > 1"
    )
    allow = ("all", f"ALLOW SUBSCRIPTION TO {kind.name}")
    await release(place, policy("all", "subscribe", allow, ("hide", hide)))
    async with place.running("north"), place.connected("aud", "north") as client:
        subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
        for amount in (1, 2, 3):
            await publisher.publish(patient="p", prescriber="n", drug="x", amount=amount)
        await publisher.flush()
        events = [await asyncio.wait_for(anext(subscriber), PATIENCE) for _ in range(3)]
    records = [read_record(each) async for page in store.read() for each in page.records]
    found = [each.disclosed for each in records if each is not None and each.disclosed is not None]
    assert {(each.subject, each.type, each.shown, each.attributes, each.rules) for each in found} == {
        ("aud", kind.name, kind.name, ("patient", "prescriber", "drug", "amount"), ("all",)),
        ("aud", kind.name, seen.name, ("prescriber", "drug"), ("all", "hide")),
    }
    told = {event for each in found for event in each.events}
    assert told == {(each.publisher.raw, each.sequence, each.time) for each in events}

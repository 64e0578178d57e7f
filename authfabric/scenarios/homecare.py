"""Care at home: sensors, a dashboard that shows no details, and an emergency in which it must.

After Singh, Eyers and Bacon (Controlling historical information dissemination in publish/subscribe, section 6).
Sensors in patients' homes publish how they are and where. Carers see a dashboard: stable or not, and roughly where. In
an emergency they see the patient's readings themselves, and the patient's own carer, without asking, those of the two
hours before. The broker has kept them as they were published, so they are not the blurred ones that were seen then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from time import time
from uuid import uuid4

from authfabric.files import history_setting
from authfabric.scenarios.testbed import Domain, stage
from authfabric.scenarios.viewing import WAIT_SECONDS, Outcome, Values, Viewer, outcome, warm_up, watching
from authz import Identity
from pdp.bundle import File
from pubsub_core.client import Delivered, Publisher
from pubsub_core.events import Event, encode
from pubsub_core.history import EventCipher, HistoryStore
from pubsub_core.types import AttributeType, EventType, SignedType

STATUS = "home.PhysicalStatus"
PATIENT, OTHER = "nhs_4412", "nhs_0017"
TYPES = {
    STATUS: [
        ("number", AttributeType.INTEGER),
        ("patient_id", AttributeType.STRING),
        ("respiration", AttributeType.INTEGER),
        ("location", AttributeType.GEO),
    ],
    "home.Dashboard": [
        ("number", AttributeType.INTEGER),
        ("patient_id", AttributeType.STRING),
        ("respiration", AttributeType.STRING),
        ("location", AttributeType.GEO),
    ],
    "home.Emergency": [("patient_id", AttributeType.STRING)],
    "home.EmergencyOver": [("patient_id", AttributeType.STRING)],
}
HOME = """
- {uid: connect, effect: allow, rules: {}, targets: {action_id: connect}}
- uid: sensors
  description: what hangs in a patient's home publishes
  effect: allow
  targets: {resource_id: /types/home.*, action_id: [advertise, publish]}
  rules: {subject: {$.roles: {condition: AnyIn, values: [sensor]}}}
"""
CARE = "- {uid: connect, effect: allow, rules: {}, targets: {action_id: connect}}\n"
RULES = f"""
carers: ALLOW SUBSCRIPTION TO {STATUS}
    WHERE credentials(user, carer)

past: ALLOW REPLAY OF {STATUS}
    WHERE credentials(user, carer)

dashboard: TRANSFORM EVENT {STATUS} TO home.Dashboard ON notify
    EXECUTE bucket(respiration, 'Emergency', 8, 'Concern', 12, 'Stable', 21, 'Concern', 30, 'Emergency')
        THEN place(location, 0.1)
    WHERE NOT emergency(patient_id)

two_hours: AUTO REPLAY EVENT TYPE {STATUS}
    FROM now() - interval '2 hours' TO now()
    WHERE sub.patient_id = '{PATIENT}'
    FILTER patient_id = '{PATIENT}'
    ON home.Emergency WHERE patient_id = '{PATIENT}'

FLUENT emergency(patient)
    INITIATED BY home.Emergency(patient_id)
    TERMINATED BY home.EmergencyOver(patient_id)
    SHARED
"""


def _reading(number: int, patient: str, respiration: int) -> dict[str, object]:
    place = {"lat": 52.2053, "lon": round(0.1218 + number / 1000, 4)}
    return {"number": number, "patient_id": patient, "respiration": respiration, "location": place}


EARLIER = (
    (5.0, _reading(1, PATIENT, 15)),
    (3.0, _reading(2, PATIENT, 16)),
    (1.5, _reading(3, PATIENT, 22)),
    (0.5, _reading(4, PATIENT, 26)),
    (0.4, _reading(5, OTHER, 14)),
)
"""Readings that the home's broker has kept, and how many hours ago they were published."""
_AGO = "Readings 1 to 5 were published 5, 3, 1.5, 0.5 and 0.4 hours ago."
CALM = (_reading(6, PATIENT, 19), _reading(7, OTHER, 13))
EMERGENCY = (_reading(8, PATIENT, 33), _reading(9, OTHER, 14))
OVER = (_reading(10, PATIENT, 18), _reading(11, OTHER, 15))


async def play(history: str = "") -> tuple[Outcome, ...]:
    """Run the scenario; returns who saw what before, in and after the emergency.

    `history` names the database of the home's broker; by default it is a file of its own.
    """
    async with stage(["home", "care"]) as (home, care), contextlib.AsyncExitStack() as stack:
        await _start(home, care, history or f"sqlite:///{home.folder / 'home'}.db")
        sensor = await stack.enter_async_context(home.client("sensor", {"roles": ["sensor"]}))
        readings, alarm, all_clear = [
            await sensor.publisher(name) for name in (STATUS, "home.Emergency", "home.EmergencyOver")
        ]
        carer, ward = viewers = await _viewers(care, stack)
        await warm_up(readings, viewers, _reading(0, PATIENT, 18), "number")
        await asyncio.gather(_wanted(alarm), _wanted(all_clear))
        known = [values for _, values in EARLIER]
        outcomes = []
        for title, said, cases in (
            ("Who sees what while all is well", None, CALM),
            (f"Who sees what in the emergency of {PATIENT}", alarm, EMERGENCY),
            ("Who sees what when it is over", all_clear, OVER),
        ):
            if said is not None:
                await said.publish(patient_id=PATIENT)
                await said.flush()
            await _publish(readings, cases)
            known += cases
            await carer.until(_shows(cases[0]))
            await ward.until(_shows(cases[1]))
            if said is alarm:
                await carer.until(
                    lambda event: event.replayed and event.attributes["number"] == CALM[0]["number"]
                )
            outcomes.append(outcome(title, known, viewers, "number", _AGO))
        return tuple(outcomes)


async def _start(home: Domain, care: Domain, history: str) -> None:
    """Both domains, and a history that goes back some hours. The home owns the types."""
    kinds = [EventType.new(name, home.key.public, made, uuid4) for name, made in TYPES.items()]
    for domain in (home, care):
        await domain.publish_types(*(SignedType.sign(each, home.key) for each in kinds))
    key = home.folder / "history.key"
    await asyncio.to_thread(_fill, history, key, kinds[0])
    await home.release(HOME)
    await care.release([File("events.yaml", CARE), File("events.rules", RULES)])
    await asyncio.gather(
        home.start_pdp(),
        care.start_pdp(),
        home.start_broker([home, care], home.key, ["--history", history, "--history-key", str(key)]),
        care.start_broker([home, care], home.key),
    )


def _fill(history: str, key: Path, kind: EventType) -> None:
    """What sensors have published over the last hours."""
    setting = history_setting(history, key, None, "home")
    assert setting is not None
    attributes = {each.id: each for each in kind.attributes}
    keeping = setting.keeping(kind, attributes)
    assert keeping is not None
    sensor, now = Identity.generate().public.raw, time()
    events = [
        Event(
            kind.id,
            kind.version,
            sensor,
            now - hours * 3600,
            number,
            {id_: values[each.name] for id_, each in attributes.items()},
        )
        for number, (hours, values) in enumerate(EARLIER, 1)
    ]
    with HistoryStore(setting.url, EventCipher(setting.secret), "home") as store:
        store.keep(keeping)
        store.append((event, encode(event)) for event in events)


async def _viewers(care: Domain, stack: contextlib.AsyncExitStack) -> list[Viewer]:
    viewers = []
    for name, filter_ in (("own carer", f"patient_id = '{PATIENT}'"), ("ward", "")):
        client = await stack.enter_async_context(care.client(name, {"roles": ["carer"]}))
        viewers.append(Viewer(name, await client.subscriber(STATUS, filter_)))
    await stack.enter_async_context(watching(viewers))
    return viewers


async def _publish(publisher: Publisher, readings: Sequence[Values]) -> None:
    for each in readings:
        await publisher.publish(**each)
    await publisher.flush()


async def _wanted(publisher: Publisher) -> None:
    """Until somebody wants what is published: here, the brokers that follow the fluent."""
    async with asyncio.timeout(WAIT_SECONDS):
        await publisher.wanted()


def _shows(reading: Values) -> Callable[[Delivered], bool]:
    return lambda event: not event.replayed and event.attributes["number"] == reading["number"]

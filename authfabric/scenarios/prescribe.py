"""The healthcare scenario: one prescription, which is something else to everybody who hears of it.

After Bacon, Eyers, Singh and Pietzuch (Access control in publish/subscribe systems, 2008, section 7.2, figure 4). A
nurse at a patient's home prescribes. Doctors hear of it while they treat that patient; to the pharmacy it is a
`Prescription`, without the prescriber; to the auditor a `Controlled_Drug_Auth`, of drugs of one class only, without the
patient. Prescriptions are sealed, and each broker has the keys of what its clients may see. Then one doctor hands a
patient over to another: nobody subscribes anew, and from then on the other one hears of that patient.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from uuid import uuid4

from authfabric.scenarios.sealing import SealedType
from authfabric.scenarios.testbed import Domain, stage
from authfabric.scenarios.viewing import Outcome, Viewer, side_by_side, warm_up, watching
from pdp.bundle import File
from pubsub_core.client import Publisher
from pubsub_core.rules import Rows
from pubsub_core.types import AttributeType, EventType, SignedType

BROKERS = ("home", "surgery", "pharmacy", "audit")
UNSEEN = {"pharmacy": ("prescriber_id",), "audit": ("patient_id",)}
"""What of a prescription a broker has no key for, since none of its clients may see it."""
VIEWERS = {
    "jones": ("doctor", "surgery"),
    "smith": ("doctor", "surgery"),
    "boots": ("pharmacist", "pharmacy"),
    "audrey": ("auditor", "audit"),
}
"""Each with the role that they have and the broker that they are connected to."""

_TEXT, _NUMBER = AttributeType.STRING, AttributeType.INTEGER
_TREATMENT = [("doctor_id", _TEXT), ("patient_id", _TEXT)]
TYPES = {
    "health.Prescribe": [
        ("number", _TEXT), ("prescriber_id", _TEXT), ("patient_id", _TEXT), ("drug_id", _TEXT), ("amount", _NUMBER),
    ],
    "health.Prescription": [("number", _TEXT), ("patient_id", _TEXT), ("drug_id", _TEXT), ("amount", _NUMBER)],
    "health.Controlled_Drug_Auth": [
        ("number", _TEXT), ("prescriber_id", _TEXT), ("drug_id", _TEXT), ("amount", _NUMBER), ("class", _TEXT),
    ],
    "health.Treatment_Begun": _TREATMENT,
    "health.Treatment_Ended": _TREATMENT,
}  # fmt: skip
DRUGS: Rows = {"morphine": {"class": "controlled"}, "aspirin": {"class": "general"}}

POLICIES = """
- {uid: connect, effect: allow, rules: {}, targets: {action_id: connect}}
- uid: nurses-prescribe
  effect: allow
  targets: {resource_id: /types/health.Prescribe, action_id: [advertise, publish]}
  rules: {subject: {$.roles: {condition: AnyIn, values: [nurse]}}}
- uid: registrars-tell
  effect: allow
  targets: {resource_id: /types/health.Treatment_*, action_id: [advertise, publish]}
  rules: {subject: {$.roles: {condition: AnyIn, values: [registrar]}}}
"""
RULES = """
doctors: ALLOW SUBSCRIPTION TO health.Prescribe
    WHERE credentials(user, doctor) AND treating(user, patient_id)

pharmacies: ALLOW SUBSCRIPTION TO health.Prescribe
    WHERE credentials(user, pharmacist)

audit: ALLOW SUBSCRIPTION TO health.Prescribe
    WHERE credentials(user, auditor)

controlled: RESTRICT DELIVERY OF health.Prescribe
    WHERE credentials(user, auditor)
    FILTER lookup('drugs', drug_id, 'class') = 'controlled'

dispense: TRANSFORM EVENT health.Prescribe TO health.Prescription ON notify
    EXECUTE drop(prescriber_id)
    WHERE credentials(user, pharmacist)

authorise: TRANSFORM EVENT health.Prescribe TO health.Controlled_Drug_Auth ON notify
    EXECUTE drop(patient_id) THEN enrich(class, 'string', 'drugs', drug_id)
    WHERE credentials(user, auditor)

FLUENT treating(doctor, patient)
    INITIATED BY health.Treatment_Begun(doctor_id, patient_id)
    TERMINATED BY health.Treatment_Ended(doctor_id, patient_id)
    SHARED
"""

BEGUN, ENDED = "health.Treatment_Begun", "health.Treatment_Ended"
ACTS = (
    ("before the patient p1 is handed over", ((BEGUN, "jones", "p1"), (BEGUN, "smith", "p2"))),
    ("after it", ((ENDED, "jones", "p1"), (BEGUN, "smith", "p1"))),
)
"""When, and what is known of treatments then."""
PRESCRIBED = (
    {"prescriber_id": "nurse_8821", "patient_id": "p1", "drug_id": "morphine", "amount": 10},
    {"prescriber_id": "nurse_8821", "patient_id": "p1", "drug_id": "aspirin", "amount": 500},
    {"prescriber_id": "nurse_8821", "patient_id": "p2", "drug_id": "morphine", "amount": 5},
    {"prescriber_id": "nurse_8821", "patient_id": "p3", "drug_id": "aspirin", "amount": 100},
)


async def play() -> tuple[Outcome, ...]:
    """Run the scenario; returns who saw what before and after the patient is handed over."""
    async with stage(["health"]) as (domain,):
        types = _types(domain)
        await domain.publish_types(*types)
        await domain.put_table("drugs", DRUGS)
        await domain.release([File("health.yaml", POLICIES), File("health.rules", RULES)])
        sealed = SealedType(
            domain, next(each for each in types if each.definition.name == "health.Prescribe")
        )
        await asyncio.gather(
            domain.start_pdp(), sealed.start_manager(), *(_start(domain, sealed, name) for name in BROKERS)
        )
        keys = await sealed.until_held()
        async with contextlib.AsyncExitStack() as stack:
            viewers = await _viewers(domain, stack)
            nurse = await stack.enter_async_context(
                domain.client("nurse", {"roles": ["nurse"]}, broker="home")
            )
            clerk = await stack.enter_async_context(
                domain.client("clerk", {"roles": ["registrar"]}, broker="home")
            )
            prescribe = await nurse.publisher("health.Prescribe")
            treatments = {name: await clerk.publisher(name) for name in (BEGUN, ENDED)}
            acts = [await _act(number, prescribe, treatments, viewers, keys) for number in range(len(ACTS))]
            return tuple(acts)


async def _start(domain: Domain, sealed: SealedType, name: str) -> None:
    """A broker, with the keys of what its clients may see."""
    identity, words = sealed.allow(name, UNSEEN.get(name, ()))
    await domain.start_broker([domain], domain.key, words, name, identity)


def _types(domain: Domain) -> list[SignedType]:
    made = [EventType.new(name, domain.key.public, each, uuid4) for name, each in TYPES.items()]
    return [SignedType.sign(each, domain.key) for each in made]


async def _viewers(domain: Domain, stack: contextlib.AsyncExitStack) -> list[Viewer]:
    """All of them ask for what is prescribed."""
    viewers = []
    for name, (role, broker) in VIEWERS.items():
        client = await stack.enter_async_context(domain.client(name, {"roles": [role]}, broker=broker))
        viewers.append(Viewer(f"{name} ({role})", await client.subscriber("health.Prescribe")))
    await stack.enter_async_context(watching(viewers))
    return viewers


async def _act(
    number: int,
    prescribe: Publisher,
    treatments: Mapping[str, Publisher],
    viewers: Sequence[Viewer],
    keys: str,
) -> Outcome:
    when, news = ACTS[number]
    # Whoever has seen the first marker hears all that is told after it, so the second round misses nothing.
    for marker in (f"marker {number}a", f"marker {number}b"):
        told = (*news, *((BEGUN, doctor, marker) for doctor in ("jones", "smith")))
        seen_by_all = {**PRESCRIBED[0], "number": marker, "patient_id": marker}
        await warm_up(prescribe, viewers, seen_by_all, "number", partial(_tell, treatments, told))
    events = [{"number": f"{number}.{position}", **each} for position, each in enumerate(PRESCRIBED)]
    last = {**seen_by_all, "number": f"{number}.last"}
    for values in (*events, last):
        await prescribe.publish(**values)
        await prescribe.flush()
    for viewer in viewers:
        await viewer.until(lambda event: event.attributes.get("number") == last["number"])
    published = [{"type": "health.Prescribe", **each} for each in events]
    heard = {each.name: [{"type": one.type.name, **one.attributes} for one in each.seen] for each in viewers}
    return side_by_side(f"What is heard of prescriptions, {when}", published, heard, "number", keys)


async def _tell(treatments: Mapping[str, Publisher], news: Sequence[tuple[str, str, str]]) -> None:
    for name, doctor, patient in news:
        await treatments[name].publish(doctor_id=doctor, patient_id=patient)
        await treatments[name].flush()

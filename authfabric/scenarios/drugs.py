"""The drug audit: three surgeries, an auditor, and an investigation that is opened and closed.

After Singh, Eyers and Bacon (Controlling historical information dissemination in publish/subscribe, section 6). Nurses
prescribe at several surgeries; each surgery's broker keeps what was published there. The auditor sees prescriptions of
controlled drugs, without the patients. While a nurse is under investigation the auditor sees her patients too, also
those of before, from all surgeries, although it knows of none of them. When the investigation is closed, the same
question brings the same events without the patients again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from authfabric.scenarios.testbed import Domain, stage
from authfabric.scenarios.viewing import Outcome, Values, Viewer, side_by_side, warm_up, watching
from pdp.bundle import File
from pubsub_core.client import CallRefused, EventClient, Publisher
from pubsub_core.rules import Rows
from pubsub_core.types import AttributeType, EventType, SignedType

SURGERIES = ("north", "south", "east")
PRESCRIBE = "nhs.Prescribe"
NURSE = "nurse_8821"
INVESTIGATED = f"underInvestigation('{NURSE}')"
_TEXT = AttributeType.STRING
_AUDITED = [
    ("case", AttributeType.INTEGER),
    ("prescriber_id", _TEXT),
    ("drug_id", _TEXT),
    ("dose", AttributeType.FLOAT),
]
TYPES = {
    PRESCRIBE: [*_AUDITED, ("patient_id", _TEXT)],
    "nhs.ControlledDrug": _AUDITED,
    "nhs.InvestigationOpened": [("prescriber_id", _TEXT)],
    "nhs.InvestigationClosed": [("prescriber_id", _TEXT)],
}
DRUGS: Rows = {
    "morphine": {"controlled": True},
    "fentanyl": {"controlled": True},
    "aspirin": {"controlled": False},
}

_FLUENT = """
FLUENT underInvestigation(prescriber)
    INITIATED BY nhs.InvestigationOpened(prescriber_id)
    TERMINATED BY nhs.InvestigationClosed(prescriber_id)
    SHARED
"""
_POLICIES = """
- {{uid: connect, effect: allow, rules: {{}}, targets: {{action_id: connect}}}}
- uid: publish
  description: {who} publish
  effect: allow
  targets: {{resource_id: {types}, action_id: [advertise, publish]}}
  rules: {{subject: {{$.roles: {{condition: AnyIn, values: [{role}]}}}}}}
"""
SURGERY = _POLICIES.format(who="nurses", role="nurse", types=f"/types/{PRESCRIBE}")
AUDIT = _POLICIES.format(who="investigators", role="investigator", types="/types/nhs.Investigation*")
RULES = f"""
audit: ALLOW SUBSCRIPTION TO {PRESCRIBE}
    WHERE credentials(user, auditor)

past: ALLOW REPLAY OF {PRESCRIBE}
    WHERE credentials(user, auditor) AND sub.prescriber_id IS NOT NULL

when: ALLOW REPLAY DURING underInvestigation
    WHERE credentials(user, auditor) AND sub.prescriber_id IS NOT NULL

controlled: RESTRICT DELIVERY OF {PRESCRIBE}
    WHERE credentials(user, auditor)
    FILTER lookup('drugs', drug_id, 'controlled') = TRUE

no_patients: TRANSFORM EVENT {PRESCRIBE} TO nhs.ControlledDrug ON notify
    EXECUTE drop(patient_id)
    WHERE credentials(user, auditor) AND NOT underInvestigation(prescriber_id)
{_FLUENT}"""


def _prescription(case: int, nurse: str, drug: str, dose: float) -> dict[str, object]:
    return {
        "case": case,
        "prescriber_id": nurse,
        "drug_id": drug,
        "dose": dose,
        "patient_id": f"patient_{400 + case}",
    }


BEFORE = {
    "north": [_prescription(1, NURSE, "morphine", 30.0), _prescription(2, NURSE, "aspirin", 75.0)],
    "south": [_prescription(3, NURSE, "fentanyl", 0.1), _prescription(4, "nurse_17", "morphine", 10.0)],
    "east": [_prescription(5, NURSE, "morphine", 60.0)],
}
DURING = {"north": [_prescription(6, NURSE, "morphine", 20.0), _prescription(7, "nurse_17", "fentanyl", 0.2)]}
AFTER = {"south": [_prescription(8, NURSE, "morphine", 40.0)]}


@dataclass
class Audit:
    """What goes on: who publishes, what was published so far, and what the auditor saw of it."""

    nurses: Mapping[str, Publisher]
    auditor: EventClient
    live: Viewer
    published: list[Values] = field(default_factory=list)

    async def prescribe(self, prescriptions: Mapping[str, Sequence[Values]]) -> None:
        """Publish at the surgeries, and wait for the auditor to have seen the last controlled one of each."""
        for surgery, cases in prescriptions.items():
            for case in cases:
                await self.nurses[surgery].publish(**case)
            await self.nurses[surgery].flush()
            self.published += cases
            last = [case["case"] for case in cases if DRUGS[str(case["drug_id"])]["controlled"]][-1]
            await self.live.until(lambda event, last=last: event.attributes["case"] == last)  # type: ignore[misc]

    async def outcome(self, title: str, note: str = "") -> Outcome:
        """What the auditor has seen since the last time, and what replays bring now."""
        seen = {
            "live": self.live.news(),
            f"replay of {NURSE}": await self.past(f"prescriber_id = '{NURSE}'"),
            "of that, while under investigation": await self.past(
                f"prescriber_id = '{NURSE}'", during=INVESTIGATED
            ),
        }
        return side_by_side(title, self.published, seen, "case", note)

    async def past(self, filter_: str, during: str = "") -> list[Values]:
        replayed = await self.auditor.replay(PRESCRIBE, filter_, during=during)
        return [event.attributes async for event in replayed]

    async def refusal(self) -> str:
        """Why the auditor does not get the past of everybody at once."""
        try:
            await self.auditor.replay(PRESCRIBE)
        except CallRefused as error:
            return str(error)
        return ""


async def play(history: Callable[[str], str] | None = None) -> tuple[Outcome, ...]:
    """Run the scenario; returns what the auditor saw before, during and after the investigation.

    `history` names the database of each surgery; by default it is a file of its own.
    """
    async with stage([*SURGERIES, "audit"]) as domains, contextlib.AsyncExitStack() as stack:
        *surgeries, office = domains
        await _start(surgeries, office, history or (lambda name: f"sqlite:///{office.folder / name}.db"))
        inspector = await stack.enter_async_context(office.client("inspector", {"roles": ["investigator"]}))
        opened = await inspector.publisher("nhs.InvestigationOpened")
        closed = await inspector.publisher("nhs.InvestigationClosed")
        audit = await _audit(surgeries, office, stack)
        await _everybody_hears(audit, opened)
        await audit.prescribe(BEFORE)
        outcomes = [
            await audit.outcome(
                "What the auditor sees before the investigation",
                f"A replay of everybody's prescriptions is refused: {await audit.refusal()}",
            )
        ]
        await _say(opened, NURSE)
        await audit.prescribe(DURING)
        outcomes.append(await audit.outcome(f"What the auditor sees while {NURSE} is under investigation"))
        await _say(closed, NURSE)
        await audit.prescribe(AFTER)
        outcomes.append(await audit.outcome("What the auditor sees after the investigation"))
        return tuple(outcomes)


async def _start(surgeries: Sequence[Domain], office: Domain, history: Callable[[str], str]) -> None:
    """PDPs and brokers of all domains; the audit office owns the types, and vouches for the surgeries' brokers."""
    kinds = [EventType.new(name, office.key.public, made, uuid4) for name, made in TYPES.items()]
    domains = [*surgeries, office]
    for domain in domains:
        await domain.publish_types(*(SignedType.sign(each, office.key) for each in kinds))
    await office.put_table("drugs", DRUGS)
    await office.release([File("events.yaml", AUDIT), File("events.rules", RULES)])
    files = [File("events.yaml", SURGERY), File("events.rules", _FLUENT)]
    await asyncio.gather(*(each.release(files) for each in surgeries))
    keeps = {
        each.name: ["--history", history(each.name), "--history-key", str(each.folder / f"{each.name}.key")]
        for each in surgeries
    }
    await asyncio.gather(
        *(each.start_pdp() for each in domains),
        *(each.start_broker(domains, office.key, keeps.get(each.name, [])) for each in domains),
    )


async def _audit(surgeries: Sequence[Domain], office: Domain, stack: contextlib.AsyncExitStack) -> Audit:
    """The auditor at its desk, and a nurse at each surgery."""
    auditor = await stack.enter_async_context(office.client("auditor", {"roles": ["auditor"]}))
    live = Viewer("auditor", await auditor.subscriber(PRESCRIBE))
    await stack.enter_async_context(watching([live]))
    nurses = {}
    for surgery in surgeries:
        client = await stack.enter_async_context(surgery.client("nurse", {"roles": ["nurse"]}))
        nurses[surgery.name] = await client.publisher(PRESCRIBE)
    return Audit(nurses, auditor, live)


async def _say(publisher: Publisher, nurse: str) -> None:
    await publisher.publish(prescriber_id=nurse)
    await publisher.flush()


async def _everybody_hears(audit: Audit, opened: Publisher) -> None:
    """Until the auditor sees what each surgery publishes, and each surgery knows of investigations."""
    for number, publisher in enumerate(audit.nurses.values(), 1):
        await warm_up(publisher, [audit.live], _prescription(-number, "nobody", "morphine", 0.0), "case")
    missing = set(audit.nurses)
    while missing:
        await _say(opened, "nobody")
        for number, surgery in enumerate(audit.nurses, 1):
            await audit.nurses[surgery].publish(**_prescription(-number, "nobody", "morphine", 0.0))
            await audit.nurses[surgery].flush()
        past = await audit.past("prescriber_id = 'nobody'", during="underInvestigation('nobody')")
        heard = {values["case"] for values in past}
        missing = {name for number, name in enumerate(audit.nurses, 1) if -number not in heard}

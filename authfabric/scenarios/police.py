"""The police scenario: one type of event, three domains, and four views of what a camera sees.

After Pesonen, Eyers and Bacon (Access control in decentralised publish/subscribe systems). PITO owns the type. Cameras
of the Metropolitan Police publish; a detective with a court order sees one numberplate, in full. The congestion charge
service bills by numberplate and time, and counts by time and location. Each domain has its own PDP, broker and, if
wanted, account on the server. What a client may takes both its own domain's policies and a capability that goes
back to PITO.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from uuid import uuid4

from authfabric.scenarios.viewing import Outcome, Viewer, outcome, warm_up, watching
from authfabric.stage import Domain, stage
from authz import Identity, PublicKey
from authz.spki import Capability, Certificate, Validity, parse_authority
from pubsub_core.client import EventClient
from pubsub_core.event_type import AttributeType, EventType
from pubsub_core.type_signature import SignedType

NUMBERPLATE = "uk.gov.pito.Numberplate"
WANTED = "AE05 XYZ"
ATTRIBUTES = [
    ("numberplate", AttributeType.STRING),
    ("location", AttributeType.STRING),
    ("time", AttributeType.TIMESTAMP),
    ("speed", AttributeType.FLOAT),
]
SIGHTINGS = (
    {"numberplate": "LB52 CAR", "location": "Victoria", "time": 1.0, "speed": 31.0},
    {"numberplate": WANTED, "location": "Victoria", "time": 2.0, "speed": 58.5},
    {"numberplate": "KX07 VAN", "location": "Soho", "time": 3.0, "speed": 22.0},
    {"numberplate": WANTED, "location": "Victoria", "time": 4.0, "speed": 40.0},
)
"""What the camera at Victoria says. The third has a wrong location, which the broker puts right."""

_CONNECT = "- {uid: connect, effect: allow, rules: {}, targets: {action_id: connect}}\n"
MET = (
    _CONNECT
    + f"""
- uid: cameras
  description: cameras publish what they see
  effect: allow
  targets: {{resource_id: /types/{NUMBERPLATE}, action_id: [advertise, publish]}}
  rules: {{subject: {{$.role: {{condition: Equals, value: camera}}}}}}
- uid: court-orders
  description: a detective sees the numberplate that a court has named, and no other
  effect: allow
  targets: {{resource_id: /types/{NUMBERPLATE}, action_id: subscribe}}
  rules: {{subject: {{$.role: {{condition: Equals, value: detective}}}}}}
  obligations: [{{filter: "numberplate = $court_order"}}]
"""
)
CCS = (
    _CONNECT
    + f"""
- uid: billing
  description: who was there, and when; where is none of billing's business
  effect: allow
  targets: {{resource_id: /types/{NUMBERPLATE}, action_id: subscribe}}
  rules: {{subject: {{$.role: {{condition: Equals, value: billing}}}}}}
  obligations: [{{attributes: [numberplate, time]}}]
- uid: statistics
  description: how many, when and where; who is none of the statistician's business
  effect: allow
  targets: {{resource_id: /types/{NUMBERPLATE}, action_id: subscribe}}
  rules: {{subject: {{$.role: {{condition: Equals, value: statistician}}}}}}
"""
)
PITO = _CONNECT
POLICIES = {"met": MET, "ccs": CCS, "pito": PITO}


async def play(*, accounts: bool = True) -> Outcome:
    """Run the scenario, each domain in an account of its own or all in one; returns who saw what."""
    async with stage(["met", "ccs", "pito"], accounts=accounts) as (met, ccs, pito):
        kind = EventType.new(NUMBERPLATE, pito.key.public, ATTRIBUTES, uuid4)
        await pito.publish_types(SignedType.sign(kind, pito.key))
        await _start((met, ccs, pito), pito)
        async with contextlib.AsyncExitStack() as stack:
            camera = await stack.enter_async_context(_client(met, "camera-7", "camera", _camera(pito, met)))
            viewers = [
                Viewer(name, await (await stack.enter_async_context(client)).subscriber(NUMBERPLATE))
                for name, client in _clients(met, ccs, pito)
            ]
            await stack.enter_async_context(watching(viewers))
            publisher = await camera.publisher(NUMBERPLATE)
            await warm_up(publisher, viewers, {**SIGHTINGS[1], "time": 0.0}, "time")
            for sighting in SIGHTINGS:
                await publisher.publish(**sighting)
            await publisher.flush()
            last = SIGHTINGS[-1]["time"]
            for viewer in viewers:
                await viewer.until(lambda event: event.attributes.get("time") == last)
    title = "Who sees what of a camera's sightings" + (", three accounts" if accounts else ", one account")
    return outcome(title, SIGHTINGS, viewers, "time")


async def _start(domains: Sequence[Domain], pito: Domain) -> None:
    """PDPs and brokers of all domains. Nobody uses PITO's types without PITO's word, and PITO is heard of."""
    owners, heart = pito.folder / "owners.txt", pito.folder / "pito.key"
    owners.write_text(f"owner: {pito.key.public}\ntype: uk.gov.pito.*\n")
    heart.touch(0o600)
    heart.write_bytes(pito.key.to_pem())
    await asyncio.gather(*(domain.release(POLICIES[domain.name]) for domain in domains))
    extra = {domain.name: ["--owners", str(owners)] for domain in domains}
    extra[pito.name] += ["--owner-key", str(heart)]
    await asyncio.gather(
        *(domain.start_pdp() for domain in domains),
        *(domain.start_broker(domains, pito.key, extra[domain.name]) for domain in domains),
    )


def _clients(
    met: Domain, ccs: Domain, pito: Domain
) -> list[tuple[str, contextlib.AbstractAsyncContextManager[EventClient]]]:
    detective, billing, statistics = (Identity.generate() for _ in range(3))
    tracks = f'action: subscribe\nattributes: numberplate = "{WANTED}", location, time, speed'
    smith = met.client(
        "smith", {"role": "detective", "court_order": WANTED}, detective, _chain(pito, met, detective, tracks)
    )
    bills = _client(ccs, "billing", "billing", (billing, _chain(pito, ccs, billing, "action: subscribe")))
    counts = "action: subscribe\nattributes: time, location"
    counting = _client(ccs, "counting", "statistician", (statistics, _chain(pito, ccs, statistics, counts)))
    return [("detective (met)", smith), ("billing (ccs)", bills), ("statistics (ccs)", counting)]


def _client(
    domain: Domain, name: str, role: str, holder: tuple[Identity, Sequence[Certificate]]
) -> contextlib.AbstractAsyncContextManager[EventClient]:
    identity, chain = holder
    return domain.client(name, {"role": role}, identity, chain)


def _camera(pito: Domain, met: Domain) -> tuple[Identity, Sequence[Certificate]]:
    """The camera at Victoria: it may publish, but nothing from elsewhere."""
    camera = Identity.generate()
    grants = 'action: publish\nattributes: location = "Victoria", numberplate, time, speed'
    return camera, _chain(pito, met, camera, grants)


def _chain(pito: Domain, domain: Domain, holder: Identity, grants: str) -> Sequence[Certificate]:
    """From PITO to a domain, and from there to one of its clients."""
    wide = _grant(pito.key, domain.key.public, True, "action: publish|subscribe")
    return wide, _grant(domain.key, holder.public, False, grants)


def _grant(by: Identity, to: PublicKey, delegate: bool, grants: str) -> Certificate:
    authority = parse_authority(f"type: {NUMBERPLATE}\n{grants}")
    return Capability(by.public, to, delegate, authority, Validity()).sign(by)

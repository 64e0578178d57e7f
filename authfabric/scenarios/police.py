"""The police scenario: one type of event, three domains, and four views of what a camera sees.

After Pesonen, Eyers and Bacon (Access control in decentralised publish/subscribe systems). PITO owns the type. Cameras
of the Metropolitan Police publish; a detective with a court order sees one numberplate, in full. The congestion charge
service bills by numberplate and time, and counts by time and location. Each domain has its own PDP, broker and, if
wanted, account on the server. What a client may takes both its own domain's policies and a capability that goes
back to PITO. The police go by roles (`police_roles`), for which the issuing service gives them capabilities, the
congestion charge service by attributes. In the end the court takes its order back. In one account sightings are sealed:
PITO's key manager gives the brokers of the two services the keys of what their clients may see, so that PITO's own
broker and the servers carry what they cannot read. (Key managers answer nobody in another account.)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from uuid import uuid4

from authfabric.scenarios.police_roles import NAME, Met
from authfabric.scenarios.sealing import SealedType
from authfabric.scenarios.testbed import Domain, ServerMode, stage
from authfabric.scenarios.viewing import Outcome, Viewer, outcome, warm_up, watching
from authz import Identity, PublicKey
from authz.spki import Capability, Certificate, Validity, parse_authority
from bus.nats import Connection
from pubsub_core.client import EventClient, Publisher
from pubsub_core.types import AttributeType, EventType, SignedType

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
LATER = (
    {"numberplate": WANTED, "location": "Victoria", "time": 5.0, "speed": 44.0},
    {"numberplate": "LB52 CAR", "location": "Victoria", "time": 6.0, "speed": 30.0},
)
"""What it says when the court has taken its order back."""

UNSEEN: Mapping[str, Sequence[str]] = {"met": (), "ccs": ("speed",)}
"""Whose brokers get keys of sightings, in one account, and of which attributes they get none."""
_CONNECT = "- {uid: connect, effect: allow, rules: {}, targets: {action_id: connect}}\n"
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
CASE = "case-7"
PLACE = "Victoria"


async def play(*, accounts: bool = False) -> tuple[Outcome, Outcome]:
    """Run the scenario, all domains in one account that refuses strangers, or each in one of its own.

    Returns who saw what while the court order stood, and after the court had taken it back.
    """
    ground = ServerMode.ACCOUNTS if accounts else ServerMode.SECURED
    force = Met(NUMBERPLATE)
    force.people.update({name: Identity.generate() for name in ("smith", "camera-7")})
    async with stage(["met", "ccs", "pito"], ground, keys={NAME: force.key}, roles=force.entitlement) as (
        met,
        ccs,
        pito,
    ):
        kind = EventType.new(NUMBERPLATE, pito.key.public, ATTRIBUTES, uuid4)
        signed = SignedType.sign(kind, pito.key)
        await pito.publish_types(signed)
        sealed = None if accounts else SealedType(pito, signed)
        await _start(force, (met, ccs, pito), sealed)
        keys = "" if sealed is None else await sealed.until_held()
        async with contextlib.AsyncExitStack() as stack:
            bus = await stack.enter_async_context(met.connect("people"))
            if accounts:
                await stack.enter_async_context(force.issuing(bus))
            order = force.order(CASE, WANTED)
            camera, smith = await _people(stack, force, met, pito, bus, order)
            viewers = [Viewer("detective (met)", await smith.subscriber(NUMBERPLATE))]
            for name, client in _offices(ccs, pito):
                viewers.append(
                    Viewer(name, await (await stack.enter_async_context(client)).subscriber(NUMBERPLATE))
                )
            await stack.enter_async_context(watching(viewers))
            publisher = await camera.publisher(NUMBERPLATE)
            await warm_up(publisher, viewers, {**SIGHTINGS[1], "time": 0.0}, "time")
            where = "three accounts" if accounts else "one secured account"
            first = await _tell(publisher, viewers, viewers, SIGHTINGS, f"Who sees what, {where}", keys)
            await force.revoke(bus, order)
            await _bereft(smith)
            second = await _tell(
                publisher, viewers, viewers[1:], LATER, "Who sees what without a court order"
            )
    return first, second


async def _bereft(client: EventClient) -> None:
    """Return when nothing is left to a client of what it asked for."""
    while await client.restrictions(NUMBERPLATE):  # noqa: ASYNC110 - nobody tells clients of that
        await asyncio.sleep(0.05)


async def _tell(
    publisher: Publisher,
    viewers: Sequence[Viewer],
    waiting: Sequence[Viewer],
    sightings: Sequence[Mapping[str, object]],
    title: str,
    note: str = "",
) -> Outcome:
    """Publish sightings, and wait until those who see the last have seen it."""
    for sighting in sightings:
        await publisher.publish(**sighting)
    await publisher.flush()
    last = sightings[-1]["time"]
    for viewer in waiting:
        await viewer.until(lambda event: event.attributes.get("time") == last)
    return outcome(title, sightings, viewers, "time", note)


async def _start(force: Met, domains: tuple[Domain, Domain, Domain], sealed: SealedType | None) -> None:
    """PDPs and brokers of all domains. Nobody uses PITO's types without PITO's word, and PITO is heard of.

    If sightings are sealed, PITO gives keys to the brokers of those who use them, and to its own none.
    """
    met, ccs, pito = domains
    owners, heart = pito.folder / "owners.txt", pito.folder / "pito.key"
    owners.write_text(f"owner: {pito.key.public}\ntype: uk.gov.pito.*\n")
    heart.touch(0o600)
    heart.write_bytes(pito.key.to_pem())
    await asyncio.gather(met.release(force.policies()), ccs.release(CCS), pito.release(PITO))
    extra = {domain.name: ["--owners", str(owners)] for domain in domains}
    extra[pito.name] += ["--owner-key", str(heart)]
    identities: dict[str, Identity] = {}
    if sealed is not None:
        await sealed.start_manager()
        for name, hidden in UNSEEN.items():
            identities[name], words = sealed.allow(name, hidden)
            extra[name] += words
    asking = await met.start_roles(force.service)
    await asyncio.gather(
        met.start_pdp(asking),
        *(domain.start_pdp() for domain in (ccs, pito)),
        *(
            domain.start_broker(domains, pito.key, extra[domain.name], identity=identities.get(domain.name))
            for domain in domains
        ),
    )


async def _people(
    stack: contextlib.AsyncExitStack, force: Met, met: Domain, pito: Domain, bus: Connection, order: bytes
) -> tuple[EventClient, EventClient]:
    """The camera and the detective of the force, each in its role and with what is issued for that."""
    await force.assign(bus, "smith", CASE)
    seeing = await force.activate(
        bus, "camera-7", "member", "camera", show=[force.installation("camera-7", PLACE)]
    )
    proofs = [force.rank("smith"), order]
    tracking = await force.activate(bus, "smith", "member", "detective", "npTracker", show=proofs)
    wide = _wide(pito, (met.key if met.local is None else met.local.issuer.service).public)
    camera, smith = [
        await stack.enter_async_context(met.client(name, {}, force.people[name], (wide, *issued)))
        for name, issued in (("camera-7", seeing), ("smith", tracking))
    ]
    return camera, smith


def _offices(
    ccs: Domain, pito: Domain
) -> list[tuple[str, contextlib.AbstractAsyncContextManager[EventClient]]]:
    """Those who bill and those who count, by attribute policies and by what PITO's capability leaves them."""
    billing, statistics = Identity.generate(), Identity.generate()
    bills = _grant(ccs.key, billing.public, False, "action: subscribe")
    counts = _grant(ccs.key, statistics.public, False, "action: subscribe\nattributes: time, location")
    wide = _wide(pito, ccs.key.public)
    return [
        ("billing (ccs)", ccs.client("billing", {"role": "billing"}, billing, (wide, bills))),
        ("statistics (ccs)", ccs.client("counting", {"role": "statistician"}, statistics, (wide, counts))),
    ]


def _wide(pito: Domain, key: PublicKey) -> Certificate:
    """PITO's word for whoever issues in a domain, and may pass on any part of it."""
    return _grant(pito.key, key, True, "action: publish|subscribe")


def _grant(by: Identity, to: PublicKey, delegate: bool, grants: str) -> Certificate:
    authority = parse_authority(f"type: {NUMBERPLATE}\n{grants}")
    return Capability(by.public, to, delegate, authority, Validity()).sign(by)

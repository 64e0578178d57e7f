"""A surgery where roles are activated by proof, and fall with what they rest on. It brings its own server."""

import asyncio
import os
import time
from contextlib import AsyncExitStack

import msgspec

from authz import Identity
from authz.predicate import Path
from authz.spki import Capability, parse_authority
from bus import Connection, NatsServer, Scope
from bus.services import RoleClient, hearing_changes, service_name
from pdp.attributes import BusProvider, CachingProvider
from pdp.bundle import Bundle, File, PolicySet
from pdp.replica import AnswerAuthority, PolicyPoint, Replica
from pdp.sessions import Appointment, RoleService, RoleServing
from pep import Enforcer

surgery, ann, hospital = Identity.generate(), Identity.generate(), Identity.generate()

RULES = f"""
trust {hospital.public} for employed, treats
[principal(u)] |- user(u)
user(u)*, appointment employed(u, "doctor")* |- doctor(u)
doctor(d)*, [treats(d, p)]* |- treating(d, p)
treating(d, p) |- privilege(read, "/patients/{{p}}/record")
"""
PEOPLE = f"subjects: {{ann: {{key: {ann.public}}}}}"
PDP = Identity.generate()
MAY_DECIDE = Capability(surgery.public, PDP.public, False, parse_authority("object: *\naction: decide"))
WARRANT = AnswerAuthority(PDP, [MAY_DECIDE.sign(surgery)], time.time())
POLICIES = PolicySet.read(Bundle.of([File("surgery.oasis", RULES), File("people.entities.yaml", PEOPLE)]))


async def start(stack: AsyncExitStack, url: str) -> Connection:
    """A role service, and a PDP that asks it who is in which role."""
    bus = await stack.enter_async_context(Connection(url))
    roles = await stack.enter_async_context(RoleService(bus, RoleServing(surgery)))
    roles.adopt(POLICIES, 0)
    asks = BusProvider(
        bus,
        service_name("default"),
        surgery.public,
        frozenset({Path("subject", ("roles",))}),
        time.time,
        2.0,
    )
    known = CachingProvider(asks, time.time, 2.0, lifetime=60.0)
    await stack.enter_async_context(hearing_changes(bus, asks.name, surgery.public, known.forget))
    point = PolicyPoint(POLICIES, providers=[known])
    await stack.enter_async_context(Replica(bus, point, [Scope.parse("domain:default")], authority=WARRANT))
    return bus


async def main() -> None:
    os.environ.pop(
        "AUTHFABRIC_CREDENTIALS", None
    )  # those would be for other servers than the one started here
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(NatsServer(jetstream=True))
        bus = await start(stack, server.url)
        pep = await stack.enter_async_context(Enforcer.connect(server.url, trust=[surgery.public]))

        async def may_read() -> str:
            return "may" if (await pep.check("ann", "/patients/p7/record", "read")).allowed else "may not"

        print(f"ann {await may_read()} read the record of p7")

        now = time.time()
        employed = Appointment(
            "", "e-17", "employed", ("ann", "doctor"), "ann", now, now + 3600, "hospital", ""
        )
        certificate = msgspec.msgpack.encode(employed.signed(hospital))
        records = RoleClient(bus, hospital)
        await records.tell("treats(ann, p7)")

        session = await RoleClient(bus, ann).begin("ann")
        await session.activate("user")
        await session.activate("doctor", certificate)
        print(f"ann is {await session.activate('treating')}, and {await may_read()} read it now")

        for ended in await records.revoke(certificate):
            print(f"ended: {ended.replace(session.id, 'of ann')}")
        print(f"ann {await may_read()} read it any more")


if __name__ == "__main__":
    asyncio.run(main())

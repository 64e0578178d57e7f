"""Role services, principals and rules about doctors and nurses, on one bus."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from time import time

import msgspec

from authz import Identity
from bus import Connection, NatsServer
from bus.services.attribute_client import ask_attributes
from bus.services.role_client import RoleClient, RoleSession, service_name
from bus.wire.envelope import pack
from bus.wire.role_messages import Outcome, Said, unpack_outcome
from bus.wire.subjects import roles
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet
from pdp.sessions import Appointment
from pdp.sessions.role_service import RoleService, RoleServing

SERVICE, ANN, BOB, EVE, HR = (Identity.generate() for _ in range(5))
RULES = f"""
trust {HR.public} for employed, treats, hour
trust {SERVICE.public} for nurse
[principal(u)] |- user(u)
user(u)*, appointment employed(u, "doctor")* |- doctor(u)
doctor(d)*, [treats(d, p)]* |- treating(d, p)
doctor(d)*, [context.hour < 20]* |- onDuty(d)
doctor(d), [context.hour < 20] |- onCall(d)
user(n)*, appointment nurse(n)* |- nurse(n)
doctor(d) |- appoint nurse(n)
treating(d, p) |- privilege(read, "/patients/{{p}}")
"""
PEOPLE = f"subjects: {{ann: {{key: {ANN.public}}}, bob: {{key: [{BOB.public}, {EVE.public}]}}, cyd: {{}}}}"


def policies(rules: str = RULES, people: str = PEOPLE) -> PolicySet:
    return PolicySet.read(Bundle.of([File("r.oasis", rules), File("people.entities.yaml", people)]))


def employed(holder: str, serial: str = "e1", seconds: float | None = None, by: Identity = HR) -> bytes:
    expires = None if seconds is None else time() + seconds
    content = ("", serial, "employed", (holder, "doctor"), holder, 0.0, expires, "hr", "")
    return msgspec.msgpack.encode(Appointment(*content).signed(by))


class World:
    """A server, and services and principals that share it."""

    def __init__(self, server: NatsServer, bus: Connection) -> None:
        self.server = server
        self.bus = bus

    @contextlib.asynccontextmanager
    async def service(
        self, lease: float = 60.0, rules: PolicySet | None = None
    ) -> AsyncIterator[RoleService]:
        async with (
            Connection(self.server.url) as bus,
            RoleService(bus, RoleServing(SERVICE, lease=lease)) as service,
        ):
            service.adopt(rules or policies(), 1)
            yield service

    def client(self, identity: Identity) -> RoleClient:
        return RoleClient(self.bus, identity, seconds=20.0)

    async def doctor(self) -> RoleSession:
        """Ann's session, in which she is a doctor."""
        session = await self.client(ANN).begin("ann")
        await session.activate("user")
        assert await session.activate("doctor", employed("ann")) == "doctor(ann)"
        return session

    async def told(self, principal: str) -> tuple[list[str], float]:
        """What decision points are told, and for how long that is good."""
        names = ["roles"]
        found = await ask_attributes(
            self.bus, service_name("default"), SERVICE.public, "subject", [principal], names, 20.0
        )
        known = found[principal]
        return known.attributes["roles"], known.seconds

    async def say(self, data: bytes) -> Outcome:
        return unpack_outcome(await self.bus.ask(roles("default"), pack(Said(data)), 20.0))

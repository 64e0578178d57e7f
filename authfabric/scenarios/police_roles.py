"""The Metropolitan Police, governed by roles: what makes somebody a tracker or a camera, and what comes with that.

`detective(d), caseAssignment(d, c), courtOrder(c, np) |- npTracker(d, np)`, after Pesonen, Eyers and Bacon. The role
lets its holder subscribe; the capability that is issued for it names the one numberplate, and brokers of every domain
enforce that. When the court takes its order back, the role falls, and the subscription with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from time import time
from uuid import uuid4

import msgspec

from authfabric.scenarios.testbed import LASTS
from authz import Identity
from authz.spki import Certificate, Revocations, decode_chain
from bus.feeds import RevocationFeed
from bus.nats import Connection, ask_capability
from bus.services import RoleClient
from pdp.access import Issuer, IssuingService, RoleEntitlement
from pdp.bundle import Bundle, File, PolicySet
from pdp.sessions import Appointment

NAME = "met"
_RULES = """
domain {name}
trust {met} for rank, installed, caseAssignment
trust {court} for courtOrder

[principal(u)] |- member(u)
member(u)*, appointment rank(u, "detective")* |- detective(u)
detective(d)*, [caseAssignment(d, c)]*, appointment courtOrder(c, np)* |- npTracker(d, np)
member(u)*, appointment installed(u, place)* |- camera(u, place)

connect: member(u) |- privilege(connect, "/brokers/{name}")
ask: member(u) |- privilege(inspect, "/types/{type}")
track: npTracker(d, np) |- privilege(subscribe, "/types/{type}")
see: camera(c, place) |- privilege(advertise|publish, "/types/{type}")

one-plate: npTracker(d, np) |- capability(subscribe, "{type}") where [event.numberplate == np]
one-place: camera(c, place) |- capability(publish, "{type}") where [event.location == place]
"""


@dataclass
class Met:
    """The force: its policy, and how its people come to their roles, and to what comes with those."""

    type: str
    key: Identity = field(default_factory=Identity.generate)
    service: Identity = field(default_factory=Identity.generate)
    """The key of its role service."""
    court: Identity = field(default_factory=Identity.generate)
    people: dict[str, Identity] = field(default_factory=dict)
    """Everybody whose key the force knows, by name."""

    @property
    def _rules(self) -> str:
        return _RULES.format(name=NAME, met=self.key.public, court=self.court.public, type=self.type)

    def policies(self) -> Sequence[File]:
        """What the force puts in force."""
        known = msgspec.json.encode({name: {"key": str(key.public)} for name, key in self.people.items()})
        entities = f"subjects: {known.decode()}\n"
        return [File("met.oasis", self._rules), File("people.entities.yaml", entities)]

    def entitlement(self, bus: Connection) -> RoleEntitlement:
        """What gives capabilities for its roles."""
        rules = PolicySet.read(Bundle.of(self.policies())).roles
        assert rules is not None
        return RoleEntitlement(bus, self.service.public, rules.rulebook, NAME)

    @contextlib.asynccontextmanager
    async def issuing(self, bus: Connection) -> AsyncIterator[None]:
        """Issue capabilities for roles, where no access control service does."""
        known = Revocations()
        async with RevocationFeed(bus, known.accept) as feed:

            async def revocations() -> Revocations:
                await feed.catch_up()
                return known

            issuer = Issuer(NAME, self.key)
            async with IssuingService(bus, issuer, time, revocations, roles=self.entitlement(bus)):
                yield

    async def activate(
        self, bus: Connection, name: str, *roles: str, show: Sequence[bytes]
    ) -> tuple[Certificate, ...]:
        """Have somebody enter roles one after another, by proof; returns the capability that is issued for them."""
        session = await RoleClient(bus, self.people[name], NAME).begin(name, NAME)
        for role in roles:
            await session.activate(role, *show)
        return tuple(decode_chain(await ask_capability(bus, time(), session.id, self.people[name])))

    async def assign(self, bus: Connection, detective: str, case: str) -> None:
        await RoleClient(bus, self.key, NAME).tell(f"caseAssignment({detective}, {case})")

    async def revoke(self, bus: Connection, order: bytes) -> None:
        """The court takes an order back."""
        await RoleClient(bus, self.court, NAME).revoke(order)

    def order(self, case: str, numberplate: str) -> bytes:
        """A court order, good for whoever has the case."""
        return _appointment("courtOrder", (case, numberplate), "*", self.court)

    def rank(self, name: str) -> bytes:
        return _appointment("rank", (name, "detective"), name, self.key)

    def installation(self, name: str, place: str) -> bytes:
        return _appointment("installed", (name, place), name, self.key)


def _appointment(kind: str, terms: tuple[str, str], holder: str, by: Identity) -> bytes:
    now = time()
    made = Appointment("", uuid4().hex, kind, terms, holder, now - 1, now + LASTS, "", "")
    return msgspec.msgpack.encode(made.signed(by))

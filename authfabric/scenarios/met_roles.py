"""The Metropolitan Police, governed by roles: what makes somebody a tracker or a camera, and what comes with that.

`detective(d), caseAssignment(d, c), courtOrder(c, np) |- npTracker(d, np)`, after Pesonen, Eyers and Bacon. The role
lets its holder subscribe; the capability that comes with it names the one numberplate, and brokers of every domain
enforce that. When the court takes its order back, the role falls, and the subscription with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import time
from uuid import uuid4

import msgspec

from authfabric.scenarios.testbed import LASTS, Domain
from authz import Identity
from authz.spki import Authority, Capability, Certificate, Validity
from bus.nats import Connection
from bus.services import RoleClient
from pdp.bundle import File
from pdp.oasis import Domains, Instance, grants_of, parse
from pdp.sessions import Appointment

_RULES = """
domain met
trust {met} for rank, installed, caseAssignment
trust {court} for courtOrder

[principal(u)] |- member(u)
member(u)*, appointment rank(u, "detective")* |- detective(u)
detective(d)*, [caseAssignment(d, c)]*, appointment courtOrder(c, np)* |- npTracker(d, np)
member(u)*, appointment installed(u, place)* |- camera(u, place)

connect: member(u) |- privilege(connect, "/brokers/met")
ask: member(u) |- privilege(inspect, "/types/{type}")
track: npTracker(d, np) |- privilege(subscribe, "/types/{type}")
see: camera(c, place) |- privilege(advertise|publish, "/types/{type}")

one-plate: npTracker(d, np) |- capability(subscribe, "{type}") where [event.numberplate == np]
one-place: camera(c, place) |- capability(publish, "{type}") where [event.location == place]
"""


@dataclass(frozen=True)
class Met:
    """The force: its policy, and how its people come to their roles."""

    domain: Domain
    type: str
    court: Identity = field(default_factory=Identity.generate)
    people: dict[str, Identity] = field(default_factory=dict)
    """Everybody whose key the force knows, by name."""

    @property
    def _rules(self) -> str:
        return _RULES.format(met=self.domain.key.public, court=self.court.public, type=self.type)

    def policies(self) -> Sequence[File]:
        """What the force puts in force."""
        known = msgspec.json.encode({name: {"key": str(key.public)} for name, key in self.people.items()})
        entities = f"subjects: {known.decode()}\n"
        return [File("met.oasis", self._rules), File("people.entities.yaml", entities)]

    async def activate(self, bus: Connection, name: str, *roles: str, show: Sequence[bytes]) -> Certificate:
        """Have somebody enter roles one after another, by proof; returns the capability that comes with the last."""
        session = await RoleClient(bus, self.people[name], self.domain.name).begin(name, self.domain.name)
        for role in roles:
            text = await session.activate(role, *show)
        rulebook = Domains([parse(self._rules, "met.oasis")]).rulebook(self.domain.name)
        authority = Authority.of(*grants_of(rulebook, Instance.parse(text)))
        holder, validity = self.people[name].public, Validity(end=int(time() + LASTS))
        return Capability(self.domain.key.public, holder, False, authority, validity).sign(self.domain.key)

    async def assign(self, bus: Connection, detective: str, case: str) -> None:
        await RoleClient(bus, self.domain.key, self.domain.name).tell(f"caseAssignment({detective}, {case})")

    async def revoke(self, bus: Connection, order: bytes) -> None:
        """The court takes an order back."""
        await RoleClient(bus, self.court, self.domain.name).revoke(order)

    def order(self, case: str, numberplate: str) -> bytes:
        """A court order, good for whoever has the case."""
        return _appointment("courtOrder", (case, numberplate), "*", self.court)

    def rank(self, name: str) -> bytes:
        return _appointment("rank", (name, "detective"), name, self.domain.key)

    def installation(self, name: str, place: str) -> bytes:
        return _appointment("installed", (name, place), name, self.domain.key)


def _appointment(kind: str, terms: tuple[str, str], holder: str, by: Identity) -> bytes:
    now = time()
    made = Appointment("", uuid4().hex, kind, terms, holder, now - 1, now + LASTS, "", "")
    return msgspec.msgpack.encode(made.signed(by))

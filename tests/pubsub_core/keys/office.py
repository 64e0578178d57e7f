"""A type with its owner, a manager that the owner appointed, and brokers with capabilities; run it for a manager."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
import time
from pathlib import Path

from authz import Identity
from authz.spki import (
    Authority,
    Capability,
    Grant,
    Kind,
    Owners,
    Resource,
    Right,
    Validity,
    Verifier,
    encode_chain,
)
from bus import Connection
from pubsub_core.key_groups.appointment_store import Managers
from pubsub_core.key_groups.key_distribution import KeyDistribution
from pubsub_core.key_groups.key_group import Rules
from pubsub_core.key_groups.keyed_type import KeyedType
from pubsub_core.key_groups.manager_service import KeyManager
from pubsub_core.key_groups.member_service import KeyClient
from pubsub_core.key_groups.messages import Appointment, appointments
from pubsub_core.keys.plan import Plan
from pubsub_core.keys.ring import KeyRing
from tests.waiting import PATIENCE

TYPE = "uk.gov.pito.Sighting"
NAMES = {f"{n:032x}": name for n, name in enumerate(("location", "numberplate", "sighted"), start=1)}
LOCATION, PLATE, TIME = NAMES
PLAN = Plan.each(NAMES)
RULES = Rules()
OWNER = Identity.from_seed(b"o" * 32)
MANAGER = Identity.from_seed(b"m" * 32)


def keyed(type_id: str) -> KeyedType:
    return KeyedType(type_id, TYPE, OWNER.public, NAMES)


def of(type_: KeyedType, attribute: str) -> str:
    """The key group of an attribute."""
    return PLAN.of(type_.id).group_of[attribute].id


def new_type() -> KeyedType:
    return keyed(os.urandom(16).hex())


def verifier() -> Verifier:
    return Verifier(Owners([(Resource.of(Kind.TYPE, "uk.gov.pito.*"), OWNER.public)]))


def certificate(subject, attributes=None, lasts: float = math.inf, began: float = 0.0, **conditions):
    rights = [Right.PUBLISH, Right.SUBSCRIBE]
    grant = Grant.of(Resource.of(Kind.TYPE, TYPE), rights, attributes, **conditions)
    now = time.time()
    validity = Validity(int(began), None if lasts == math.inf else int(now + lasts))
    return Capability(OWNER.public, subject.public, False, Authority.of(grant), validity).sign(OWNER)


def chain(subject, attributes=None, lasts: float = math.inf, began: float = 0.0, **conditions) -> bytes:
    return encode_chain([certificate(subject, attributes, lasts, began, **conditions)])


def office(
    type_id: str, rules: Rules = RULES, plan: Plan = PLAN, manager: Identity = MANAGER, since: float = 0.0
) -> KeyDistribution:
    words = Appointment(type_id, str(manager.public), time.time() + 60, since)
    return KeyDistribution(manager, keyed(type_id), plan, verifier(), rules, appointments.sign(words, OWNER))


@contextlib.asynccontextmanager
async def managing(url: str, type_id: str, rules: Rules = RULES, pulse: float = 0.05, **changed):
    async with Connection(url) as bus:
        manager = KeyManager(bus, office(type_id, rules, **changed), pulse=pulse)
        async with manager.serving():
            await bus.flush()
            yield manager


@contextlib.asynccontextmanager
async def broker(
    url: str,
    identity: Identity | None = None,
    connection: type[Connection] = Connection,
    managers: Path | None = None,
    seconds: float = PATIENCE,
    **options,
):
    """A broker's memberships; `seconds` is how long it waits for a manager's answer."""
    identity = identity or Identity.generate()
    async with connection(url, **options) as bus:
        client = KeyClient(bus, identity, KeyRing(), Managers(managers, identity), seconds=seconds)
        async with client.running():
            yield client


def newest(client: KeyClient, group: str) -> int:
    keys = client.ring.of(group)
    return max((key.epoch for key in keys), default=0) if keys is not None else 0


class Doomed(KeyManager):
    """A replica that is killed in the middle of a change: before it is stored, or after that and before it is told.

    That is so from the time on that its standard input says a line.
    """

    moment = ""

    async def _save(self, group, *known):
        if group.change is not None and group.change.rekey.version > 1 and self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        return await super()._save(group, *known)

    def _tell(self, group) -> None:
        if group.change is not None and group.change.rekey.version > 1 and self.moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        super()._tell(group)


async def main(url: str, type_id: str, moment: str, period: float) -> None:
    async with Connection(url) as bus:
        manager = Doomed(bus, office(type_id, Rules(period=period, lead=0.0)), pulse=0.05)
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin, lambda: setattr(manager, "moment", moment))
        async with manager.serving():
            await bus.flush()
            print("ready", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))

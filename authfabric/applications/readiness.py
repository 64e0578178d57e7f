"""Whether the brokers of an application are up, and hold the keys that they need."""

from __future__ import annotations

import asyncio
from time import monotonic

from authfabric.applications.document import Application, TypeSpec
from authfabric.applications.folder import ApplicationFolder
from authfabric.applications.hosting import hosted_application
from authfabric.processes import hosted_status
from authz import AuthFabricError
from bus.errors import BusError, NoResponders
from bus.nats import Connection
from bus.wire import broker as broker_subject
from pubsub_core.key_groups import KeyDistribution, KeyedType, KeyManager
from pubsub_core.keys import Offer, Plan
from pubsub_core.stores import TypeStore
from pubsub_core.types import Catalogue

WAIT_SECONDS = 60.0
"""How long one process may take to start, or a broker to get its keys."""
LOOK_SECONDS = 0.2
ANSWER_SECONDS = 1.0


class NotReady(AuthFabricError):
    """Brokers that do not answer, or have no keys: `problem` says which."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}: see what `authfabric up` says of it")
        self.problem = problem


class Patience:
    """Runs out when no problem has come for some seconds that was not there before: one that returns is no progress."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: set[str] = set()
        self._until = 0.0

    def is_over(self, problem: str, now: float) -> bool:
        if problem not in self._known:
            self._known.add(problem)
            self._until = now + self._seconds
        return now > self._until


async def until_ready(bus: Connection, folder: ApplicationFolder, seconds: float = WAIT_SECONDS) -> None:
    """Return when every broker answers and holds its keys. Raises NotReady if nothing new happens for some seconds."""
    patience = Patience(seconds)
    while problem := await _problem(bus, folder):
        if patience.is_over(problem, monotonic()):
            raise NotReady(problem)
        await asyncio.sleep(LOOK_SECONDS)


async def _problem(bus: Connection, folder: ApplicationFolder) -> str:
    app, status = folder.application, hosted_status()
    for each in hosted_application(folder).processes:
        known = status.get(each.name)
        if known is None or known.digest != each.digest or not known.pid:
            return known.problem if known is not None and known.problem else f"{each.name} does not run"
    for broker in app.brokers:
        if not await _answers(bus, app, broker):
            return f"the broker {broker} does not answer"
    for spec in app.types.values():
        if spec.sealed and (late := await _keyless(bus, folder, spec)):
            return f"the broker {late} has no keys of {spec.name}"
    return ""


async def _answers(bus: Connection, app: Application, broker: str) -> bool:
    try:
        await bus.ask(broker_subject(app.domain, broker, "key"), Offer().public, ANSWER_SECONDS)
    except (NoResponders, BusError):
        return False
    return True


async def _keyless(bus: Connection, folder: ApplicationFolder, spec: TypeSpec) -> str:
    """The first broker that is not yet in all key groups that it is to be in."""
    catalogue = Catalogue()
    await TypeStore(bus, catalogue).refresh()
    signed = folder.signed_type(spec.name)
    assert signed is not None
    keyed = KeyedType.of_type(catalogue, catalogue.newest(signed.definition.id))
    office = KeyDistribution(folder.manager(), keyed, Plan(()), keyed.verifier())
    status = await KeyManager(bus, office).status()
    held = [(set(each.attributes), {member.key for member in each.members}) for each in status.groups]
    for broker in folder.application.brokers.values():
        key = str(folder.broker(broker.name).public)
        for attribute in broker.reads.get(spec.name, ()):
            if not any(attribute in attributes and key in members for attributes, members in held):
                return broker.name
    return ""

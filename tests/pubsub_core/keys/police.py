"""The police scenario, sealed: a network server that is trusted with nothing, and each domain's own that is.

PITO owns the type. The Met's broker holds all keys; that of the congestion charge service those of numberplate and
time; that of the statistics office those of time and location.
"""

from __future__ import annotations

import contextlib
from uuid import uuid4

from authz import Identity
from authz.spki import Authority, Capability, Certificate, Grant, Kind, Resource, Right, encode_chain
from bus import Connection, NatsServer
from pubsub_core.key_groups.key_distribution import KeyDistribution
from pubsub_core.key_groups.keyed_type import KeyedType
from pubsub_core.key_groups.manager_service import KeyManager
from pubsub_core.keys import Plan
from pubsub_core.server.service import BrokerService
from pubsub_core.stores.type_store import TypeStore
from pubsub_core.types.event_type import EventType
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.town import Town

NAME = "uk.gov.pito.Numberplate"
ATTRIBUTES = [("numberplate", "string"), ("location", "string"), ("sighted", "timestamp")]
NETWORK = b"a secret that all brokers share!"
POLICY = """
- {uid: connect, effect: allow, targets: {action_id: connect}, rules: {}}
- {uid: publish, effect: allow, targets: {subject_id: camera}, rules: {}}
- uid: order
  effect: allow
  targets: {subject_id: smith}
  rules: {}
  obligations: [{filter: "numberplate = 'AE05 XYZ'"}]
- {uid: charge, effect: allow, targets: {subject_id: billing}, rules: {}}
- {uid: count, effect: allow, targets: {subject_id: statistics}, rules: {}}
"""


class Network:
    """The brokers of three domains around one type, on a server of their own."""

    def __init__(
        self, home: Town, server: NatsServer, bus: Connection, stack: contextlib.AsyncExitStack
    ) -> None:
        self.pito = Identity.generate()
        self.kind = EventType.new(NAME, self.pito.public, ATTRIBUTES, uuid4)
        self.ids = {each.name: each.id for each in self.kind.attributes}
        self.keyed = KeyedType(
            self.kind.id, NAME, self.pito.public, {each.id: each.name for each in self.kind.attributes}
        )
        self.plan = Plan.each(self.ids.values(), sizes=(32, 128))
        self.bus = bus
        self._home = home
        self._managing = contextlib.AsyncExitStack()
        stack.push_async_callback(self._managing.aclose)
        self.capabilities: dict[str, Certificate] = {}
        """Those of the brokers, by their names."""
        self.names = ((NAME, self.pito.public),)
        """Whose the type is, to brokers that do not send its owner's heartbeats."""
        self.town = Town(server, bus, stack, home._folder)
        self.town.domain, self.town.key = home.domain, home.key

    async def begin(self) -> None:
        """Publish the type, and have its owner manage its keys."""
        await self.publish_type()
        await self.manage(self.plan)

    async def publish_type(self) -> None:
        await TypeStore(self.bus, Catalogue(), NETWORK).publish(SignedType.sign(self.kind, self.pito))

    async def manage(self, plan: Plan) -> None:
        """Have the owner manage the keys by this plan, and no other."""
        await self._managing.aclose()
        office = KeyDistribution(self.pito, self.keyed, plan, self.keyed.verifier())
        bus = await self._managing.enter_async_context(Connection(self.town.server.url))
        await self._managing.enter_async_context(KeyManager(bus, office, pulse=0.1).serving())
        await bus.flush()

    async def broker(self, name: str, *attributes: str, **more) -> BrokerService:
        """A broker whose capability is for these attributes, or for all."""
        identity = Identity.generate()
        grant = Grant.of(Resource.of(Kind.TYPE, NAME), [Right.PUBLISH, Right.SUBSCRIBE], attributes or None)
        capability = Capability(self.pito.public, identity.public, False, Authority.of(grant))
        signed = self.capabilities[name] = capability.sign(self.pito)
        chain = encode_chain([signed])
        home = self._home.server.url
        return await self.town.broker(
            name,
            identity=identity,
            sealed={NAME: chain},
            home=home,
            owner_keys=(self.pito,) if name == "met" else (),
            names=self.names,
            **{"network": NETWORK, **more},
        )


@contextlib.asynccontextmanager
async def police(home: Town):
    """The scenario on a network server of its own."""
    async with (
        NatsServer(jetstream=True) as server,
        Connection(server.url) as bus,
        contextlib.AsyncExitStack() as stack,
    ):
        await home.release(POLICY)
        yield Network(home, server, bus, stack)

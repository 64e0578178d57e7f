"""A small event service on a real server: a PDP that follows releases, brokers, and clients of one domain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from time import time
from uuid import uuid4

from authz import Identity
from bus import Connection, NatsServer, Scope
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.bundle_store import BundleCache
from pdp.releases.publisher_service import Publisher
from pdp.replica.policy_follower import Follower, Following
from pdp.replica.service import Replica
from pubsub_core.client.client import EventClient
from pubsub_core.client.subscriber import Delivered
from pubsub_core.events.gap import Gap
from pubsub_core.server.config import Serving
from pubsub_core.server.service import BrokerService, serve_broker
from pubsub_core.stores.type_store import TypeStore
from pubsub_core.trust.credential import Credential, issue
from pubsub_core.trust.vouches import ALL, vouch
from pubsub_core.types.event_type import EventType
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import SignedType
from tests.waiting import PATIENCE, eventually
from tests.warrants import warrant

NEWS = [("headline", "string"), ("place", "string"), ("score", "integer")]
"""The attributes of the type that most tests publish."""
OPEN = """
- {uid: open, effect: allow, rules: {}, targets: {}}
"""


def policies(text: str) -> Bundle:
    return Bundle.of([File("events.yaml", text)])


class Town:
    """Everything in one place, with a domain whose key is everybody's."""

    def __init__(
        self, server: NatsServer, bus: Connection, stack: contextlib.AsyncExitStack, folder: Path
    ) -> None:
        self.server = server
        self.bus = bus
        self.domain = f"town-{uuid4().hex[:8]}"
        self.key = Identity.generate()
        self._stack = stack
        self._folder = folder
        self.services: list[BrokerService] = []
        self.types = TypeStore(bus, Catalogue())
        self._publisher = Publisher(bus, self.domain, self.key, {self.key.public}, time)

    async def release(self, text: str) -> int:
        return (await self._publisher.push(policies(text), force="a town without secrets")).released.epoch

    async def pdp(self) -> Replica:
        following = Following(self.domain, {self.key.public}, "pdp", BundleCache(self._folder / "cache"))
        bus = await self._stack.enter_async_context(Connection(self.server.url))
        build = lambda found, epoch: found.engine(epoch, True)  # noqa: E731
        follower = await self._stack.enter_async_context(Follower(bus, following, build))
        scope = Scope.parse(f"domain:{self.domain}")
        return await self._stack.enter_async_context(
            Replica(bus, follower, [scope], authority=warrant(self.key))
        )

    async def broker(self, name: str, **more) -> BrokerService:
        return await self._stack.enter_async_context(self.running(name, **more))

    @contextlib.asynccontextmanager
    async def running(self, name: str, **more) -> AsyncIterator[BrokerService]:
        identity = more.pop("identity", None) or Identity.generate()
        keys = {self.key.public}
        word = vouch(identity.public, [ALL], time() + 1000, self.key)
        settings = {
            "clients": {self.domain: keys},
            "policies": keys,
            "roots": keys,
            "vouches": (word,),
            **more,
        }
        serving = Serving(self.server.url, f"{name}-{self.domain}", self.domain, identity, **settings)
        async with serve_broker(serving) as service:
            self.services.append(service)
            await eventually(lambda: service.claims.epoch)
            yield service

    async def define(
        self, name: str, *attributes: tuple[str, str], parent: EventType | None = None, governed: bool = False
    ) -> EventType:
        full = f"{self.domain}.{name}"
        kind = EventType.new(full, self.key.public, attributes, uuid4, parent, governed=governed)
        await self.types.publish(SignedType.sign(kind, self.key))
        return kind

    async def client(
        self, name: str, broker: str, identity: Identity | None = None, **attributes
    ) -> EventClient:
        return await self._stack.enter_async_context(self.connected(name, broker, identity, **attributes))

    @contextlib.asynccontextmanager
    async def connected(
        self,
        name: str,
        broker: str,
        identity: Identity | None = None,
        *,
        chains: tuple[bytes, ...] = (),
        lasts: float = 1000.0,
        trust=None,
        among: tuple[str, ...] = (),
        group: str = "",
        **attributes,
    ) -> AsyncIterator[EventClient]:
        """A client of one broker; or of whichever is up, `among` several or of a group."""
        identity = identity or Identity.generate()
        credential = Credential(str(identity.public), name, self.domain, time() + lasts, attributes)
        async with EventClient.connect(
            self.server.url,
            broker=f"{broker}-{self.domain}" if broker else "",
            brokers=[f"{each}-{self.domain}" for each in among],
            group=group,
            domain=self.domain,
            identity=identity,
            credential=issue(credential, self.key),
            chains=chains,
            trust=trust,
        ) as client:
            yield client


@contextlib.asynccontextmanager
async def town(server: NatsServer, folder: Path, text: str = OPEN) -> AsyncIterator[Town]:
    async with Connection(server.url) as bus, contextlib.AsyncExitStack() as stack:
        place = Town(server, bus, stack, folder)
        await place.release(text)
        await place.pdp()
        yield place


async def take(subscriber, count: int) -> list[dict[str, object]]:
    """The next events, by name; a gap is none."""
    return [dict((await asyncio.wait_for(anext(subscriber), PATIENCE)).attributes) for _ in range(count)]


async def next_event(subscriber) -> Delivered:
    """The next event, whatever is missing before it."""
    while isinstance(event := await asyncio.wait_for(anext(subscriber), PATIENCE), Gap):
        pass
    return event


async def take_beyond_gaps(subscriber, count: int) -> list[dict[str, object]]:
    """The next events, by name, where a broker has restarted."""
    return [dict((await next_event(subscriber)).attributes) for _ in range(count)]


async def wanted(publisher) -> None:
    """Return when other brokers' interest has arrived."""
    await eventually(lambda: publisher.interested)


def rule(uid: str, obligations: str = "[]", effect: str = "allow", rules: str = "{}", **targets: str) -> str:
    """One policy, as YAML."""
    wanted = ", ".join(f"{name}: {value}" for name, value in targets.items())
    return f"- {{uid: {uid}, effect: {effect}, targets: {{{wanted}}}, rules: {rules}, obligations: {obligations}}}\n"


def subscriber_of(place, client):
    """What the broker has for a client's only subscription."""
    for service in place.services:
        for session in service.broker.sessions.values():
            if session.token == client.session:
                return next(iter(session.subscriptions.values()))
    raise AssertionError("no such session")


def cut(client) -> None:
    """End a client's connection, as a network would."""
    client.bus._client._abort()

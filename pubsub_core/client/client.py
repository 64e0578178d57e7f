"""What clients of the event service embed: connect to a broker, publish, and read what one subscribed to.

    async with EventClient.connect(
        url, brokers=["north", "south"], domain="met", identity=me, credential=mine, trust=["pito.pub"]
    ) as client:
        publisher = await client.publisher("uk.gov.pito.Numberplate")
        await publisher.publish(numberplate="AE05 XYZ", location="Victoria")

A session survives lost connections: what was published and not taken is sent again, and what was delivered and not
received is delivered again, each of them once. When its broker is lost, a client that knows others goes on there.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection
from datetime import datetime
from pathlib import Path
from time import time
from typing import TypeVar, overload

from authz import Identity
from bus.identity import Credentials as BusCredentials
from bus.nats import Connection, connect
from bus.wire import DEFAULT_DOMAIN
from pep.trust import Keys, Unverified
from pubsub_core.client.broker_selection import Brokers
from pubsub_core.client.durable import DurableSubscriber
from pubsub_core.client.profile import Profile, read_profile
from pubsub_core.client.publisher import Publisher
from pubsub_core.client.replay_reader import Replayed, unix_time
from pubsub_core.client.session import ClientSession
from pubsub_core.client.subscriber import Delivered, Subscriber
from pubsub_core.client.typed import Condition, E, Event, check_fits, type_name, typed, values_of
from pubsub_core.errors import BrokerUntrusted, CallRefused
from pubsub_core.events import Gap
from pubsub_core.messages import (
    AddType,
    Advertise,
    Answer,
    DeleteDurable,
    Durable,
    Extent,
    Inspect,
    ListDurables,
    RemoveType,
    Replay,
    Survey,
)
from pubsub_core.trust import check_own
from pubsub_core.types import AttributeType, EventType, SignedType, removal

__all__ = ["CallRefused", "Delivered", "EventClient", "Publisher", "Replayed", "Subscriber"]

_Reader = TypeVar("_Reader", bound=Subscriber)


class EventClient(ClientSession):
    """What a client does at its broker."""

    def __init__(
        self,
        bus: Connection,
        brokers: Brokers,
        domain: str,
        identity: Identity,
        credential: bytes,
        chains: tuple[bytes, ...] = (),
        trust: Keys | Unverified | None = None,
    ) -> None:
        super().__init__(bus, brokers, domain, identity, credential, chains, trust)
        self._numbers = 0
        self._durables = contextlib.AsyncExitStack()
        """The sessions of durable subscriptions."""

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls,
        url: str | None = None,
        *,
        profile: str | Path | Profile | None = None,
        broker: str = "",
        brokers: Collection[str] = (),
        group: str = "",
        identity: Identity | None = None,
        credential: bytes = b"",
        domain: str = "",
        chains: tuple[bytes, ...] = (),
        trust: Keys | Unverified | None = None,
        access: BusCredentials | None = None,
    ) -> AsyncIterator[EventClient]:
        """Begin a session for the length of a block. Raises Refused, NoBroker, InvalidKey, ProfileRefused.

        A `profile`, by its name or path, says all that is not given. Without one, and without an `identity`, it is the
        profile that AUTHFABRIC_PROFILE names.

        With `brokers`, by name, or with a `group`, as `broker serve --group` has it, the client goes on at another
        broker within a second when its own is lost: nothing is lost, and nothing comes twice.

        Types are used only if the broker is vouched for: by the domain that gave the credential, or by the type's owner
        if that is among `trust`, which names keys or files of keys. `trust=UNVERIFIED` believes any broker.

        `access` lets the client connect to a bus that refuses strangers; without it, credentials are found as an
        Enforcer finds them, and so is the server if none is given.
        """
        if profile is not None or identity is None:
            mine = profile if isinstance(profile, Profile) else read_profile(profile)
            url, access, domain = url or mine.url, access or mine.access, domain or mine.domain
            brokers = brokers or (() if broker or group else mine.brokers)
            identity, credential = identity or mine.identity, credential or mine.credential
            chains, trust = chains or mine.chains, mine.trust if trust is None else trust
        known, domain = Brokers.of(broker, brokers, group), domain or DEFAULT_DOMAIN
        check_own(credential, identity.public, time())
        async with connect(url, name="event-client", credentials=access) as bus:
            client = cls(bus, known, domain, identity, credential, chains, trust)
            async with client.running(), client._durables:
                yield client

    async def publisher(self, type_: str) -> Publisher:
        """Advertise a type. Raises Refused, UnknownType, BrokerUntrusted."""
        answer = await self.call(Advertise(type_))
        definition = self._believe(answer)
        self.interested[definition.id] = answer.interested
        publisher = Publisher(self, self._outgoing, definition)
        self.publishers[type_] = publisher
        return publisher

    @overload
    async def subscriber(
        self, type_: str, filter: str = "", *, from_: float | datetime | None = None
    ) -> Subscriber: ...

    @overload
    async def subscriber(
        self, type_: str, filter: str = "", *, durable: str, manual_ack: bool = False
    ) -> DurableSubscriber: ...

    async def subscriber(
        self,
        type_: str,
        filter: str = "",  # noqa: A002 - the domain's own word
        *,
        from_: float | datetime | None = None,
        durable: str = "",
        manual_ack: bool = False,
    ) -> Subscriber:
        """Subscribe to a type and its sub-types. Raises Refused, UnknownType, BrokerUntrusted, or SessionLost.

        With `from_`, past events come first: those published since, each once, although brokers may be restarted.

        With `durable`, the subscription has a name and outlasts clients and brokers: whoever subscribes by it next goes
        on after what was acknowledged, and several at a time share its events. An event is acknowledged by
        `await event.ack()`, or, unless `manual_ack`, when the next one is read. Raises DurableRefused if a durable
        subscription of this name has another type or filter.
        """
        if not durable:
            return await self._ask_for(
                Subscriber(self, self._next_number(), type_, filter, unix_time(from_), self.brokers.many)
            )
        if from_ is not None:
            raise ValueError("a durable subscription begins when it is made: `from_` is for others")
        session = ClientSession(
            self.bus, self.brokers, self.domain, self.identity, self.credential, self._chains, self._trusted
        )
        session.catalogue = self.catalogue
        reader = DurableSubscriber(session, type_, filter, durable, manual_ack)
        await self._durables.enter_async_context(reader.running())
        return reader

    async def subscribe(
        self,
        kind: type[E],
        where: Condition | str | bool = "",
        *,
        from_: float | datetime | None = None,
    ) -> AsyncIterator[E | Gap]:
        """Typed events: `async for sighting in client.subscribe(Sighting, Sighting.plate == "AB12CDE")`.

        Raises as `subscriber` does, InvalidType if the class does not fit the type, and InvalidEvent for an event
        without an attribute that the class needs.
        """
        if isinstance(where, bool):
            raise TypeError("a condition compares an attribute of the class: `Sighting.plate == 'AB12CDE'`")
        reader = await self.subscriber(type_name(kind), str(where), from_=from_)
        assert reader.type is not None
        check_fits(kind, reader.type, self._attribute_types(reader.type))
        async for event in reader:
            yield event if isinstance(event, Gap) else typed(kind, event.attributes)

    async def publish(self, event: Event) -> None:
        """Publish a typed event. Raises as `publisher` and `Publisher.publish` do, and InvalidType."""
        name = type_name(type(event))
        publisher = self.publishers.get(name)
        if publisher is None:
            publisher = await self.publisher(name)
            check_fits(type(event), publisher.type, self._attribute_types(publisher.type))
        await publisher.publish(**values_of(event))

    def _attribute_types(self, definition: EventType) -> dict[str, AttributeType]:
        return {each.name: each.type for each in self.catalogue.attributes(definition.version).values()}

    async def durables(self) -> tuple[Durable, ...]:
        """This client's durable subscriptions, and where they stand."""
        return (await self.call(ListDurables())).durables

    async def delete_durable(self, name: str) -> None:
        """Delete a durable subscription that nobody reads. Raises DurableRefused."""
        await self.call(DeleteDurable(name))

    async def replay(
        self,
        type_: str,
        filter: str = "",  # noqa: A002 - the domain's own word
        *,
        from_: float | datetime | None = None,
        to: float | datetime | None = None,
        during: str = "",
        not_during: str = "",
    ) -> Replayed:
        """Past events of a type and its sub-types, in order of time: `async for event in await client.replay(...)`.

        Those from one time up to but not including another, while one fluent held and another did not, such as
        `underInvestigation('nurse_8821')`. Raises Refused, UnknownType, BrokerUntrusted.
        """
        asked = Replay(0, type_, filter, unix_time(from_), unix_time(to), during, not_during)
        return await self._ask_for(Replayed(self, self._next_number(), asked))

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def _ask_for(self, reader: _Reader) -> _Reader:
        answer = await self._insist(lambda: self._begin(reader))
        try:
            reader.type = self._believe(answer)
        except BrokerUntrusted:
            del self.inbox.subscribers[reader.number]
            raise
        reader.go_on(answer.position)
        return reader

    async def _begin(self, reader: Subscriber) -> Answer:
        self.inbox.subscribers[reader.number] = reader
        try:
            return await self._call(reader.call)
        except BaseException:
            del self.inbox.subscribers[reader.number]
            raise

    async def restrictions(self, type_: str) -> tuple[str, ...]:
        """Which restrictions apply to this session's use of a type. Raises Refused if that is not to be told."""
        answer = await self.call(Inspect(type_))
        self._believe(answer)
        return answer.restrictions

    async def extent(self, type_: str, filter_: str = "") -> Extent:
        """What could come of a subscription, and how far interest extends. Raises Refused, InvalidFilter."""
        answer = await self.call(Survey(type_, filter_))
        self._believe(answer)
        return answer.extent or Extent(satisfiable=False)

    async def add_type(self, signed: SignedType) -> None:
        """Have a type known everywhere. Raises Refused, TypeRefused, BrokerUntrusted."""
        answer = await self.call(AddType(signed.encode()))
        self._verify(signed.definition, answer)

    async def remove_type(self, name: str) -> None:
        """Take out a type that is one's own."""
        self._believe(await self.call(RemoveType(name, removal(name, time(), self.identity))))

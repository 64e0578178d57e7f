"""What clients of the event service embed: connect to a broker, publish, and read what one subscribed to.

    async with EventClient.connect(
        url, broker="met", domain="met", identity=me, credential=mine, trust=["pito.pub"]
    ) as client:
        publisher = await client.publisher("uk.gov.pito.Numberplate")
        await publisher.publish(numberplate="AE05 XYZ", location="Victoria")

A session survives lost connections: what was published and not taken is sent again, and what was delivered and not
received is delivered again, each of them once. It ends when the broker has forgotten it; then another begins, with the
same subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from time import time
from typing import TypeVar

from authz import Identity, PublicKey
from authz.errors import InvalidSignature
from bus.errors import BusError, NoResponders, NotConnected
from bus.identity import Credentials as BusCredentials
from bus.nats import Connection, connect
from bus.wire import DEFAULT_DOMAIN, pack, subjects
from bus.wire import broker as broker_subject
from pep.trust import Keys, Unverified
from pubsub_core.client.calls import CALL_SECONDS, Met, mail_place, meet, opened, raise_fault
from pubsub_core.client.inbox import Inbox
from pubsub_core.client.publisher import Outgoing, Publisher
from pubsub_core.client.replay_reader import Replayed, unix_time
from pubsub_core.client.subscriber import Delivered, Subscriber
from pubsub_core.errors import BrokerUntrusted, CallRefused, NoBroker, Refused, SessionLost
from pubsub_core.events import NONCE_BYTES
from pubsub_core.keys import CannotOpen, Channel
from pubsub_core.messages import (
    CALL,
    WELCOME,
    AddType,
    Advertise,
    Answer,
    Call,
    Closed,
    Connect,
    Delivery,
    Describe,
    Disconnect,
    Inspect,
    Interest,
    RemoveType,
    Replay,
    SignedCall,
    unpack_answer,
    unpack_post,
)
from pubsub_core.trust import BrokerTrust
from pubsub_core.types import Catalogue, EventType, SignedType, removal

__all__ = ["CallRefused", "Delivered", "EventClient", "Publisher", "Replayed", "Subscriber"]

KEEPALIVE_SECONDS = 2.0

_Reader = TypeVar("_Reader", bound=Subscriber)

_log = logging.getLogger("authfabric.events")


class EventClient:
    """One client's session with one broker."""

    def __init__(
        self,
        bus: Connection,
        broker: str,
        domain: str,
        identity: Identity,
        credential: bytes,
        chains: tuple[bytes, ...] = (),
        trust: Keys | Unverified | None = None,
    ) -> None:
        self.bus = bus
        self.broker = broker
        self.domain = domain
        self.identity = identity
        self.credential = credential
        self._chains = chains
        self._trust = BrokerTrust(trust, credential)
        self.catalogue = Catalogue()
        self.channel: Channel
        """By which the broker is spoken to; there is one from the moment it was first met."""
        self._key: PublicKey | None = None
        """The key of the broker that is spoken to."""
        self._joined: Channel | None = None
        """The last on which the session was taken up."""
        self.session = ""
        self.sessions_begun = 0
        """How often a session was begun anew: more than once if the broker forgot it meanwhile."""
        self.inbox = Inbox()
        self._closed = ""
        self._numbers = 0
        self.publishers: dict[str, Publisher] = {}
        self._outgoing = Outgoing(self)
        self._mailbox = subjects.mailbox(domain, mail_place(bus), secrets.token_hex(8))
        self._connecting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.interested: dict[str, bool] = {}
        """Whether anybody wants the types published, by UUID, as the broker last said."""
        self.interest_changed = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls,
        url: str | None = None,
        *,
        broker: str,
        identity: Identity,
        credential: bytes,
        domain: str = DEFAULT_DOMAIN,
        chains: tuple[bytes, ...] = (),
        trust: Keys | Unverified | None = None,
        access: BusCredentials | None = None,
    ) -> AsyncIterator[EventClient]:
        """Begin a session for the length of a block. Raises Refused, NoBroker, InvalidKey.

        Types are used only if the broker is vouched for: by the domain that gave the credential, or by the type's owner
        if that is among `trust`, which names keys or files of keys. `trust=UNVERIFIED` believes any broker.

        `access` lets the client connect to a bus that refuses strangers; without it, credentials are found as an
        Enforcer finds them, and so is the server if none is given.
        """
        async with connect(url, name="event-client", credentials=access) as bus:
            client = cls(bus, broker, domain, identity, credential, chains, trust)
            await bus.listen(client._mailbox, lambda subject, reply, data, headers: client._on_post(data))
            try:
                await client._connect()
            except NoResponders:
                raise NoBroker(broker, domain) from None
            bus.on_ready.append(client._reconnect)
            client._start(client._keep_alive())
            try:
                yield client
            finally:
                bus.on_ready.remove(client._reconnect)
                for task in client._tasks:
                    task.cancel()
                client._outgoing.hurry()
                with contextlib.suppress(BusError, Refused, SessionLost):
                    await client._call(Disconnect())

    async def publisher(self, type_: str) -> Publisher:
        """Advertise a type. Raises Refused, UnknownType, BrokerUntrusted."""
        answer = await self.call(Advertise(type_))
        definition = self._believe(answer)
        self.interested[definition.id] = answer.interested
        publisher = Publisher(self, self._outgoing, definition)
        self.publishers[type_] = publisher
        return publisher

    async def subscriber(
        self,
        type_: str,
        filter: str = "",  # noqa: A002 - the domain's own word
        *,
        from_: float | datetime | None = None,
    ) -> Subscriber:
        """Subscribe to a type and its sub-types. Raises Refused, UnknownType, BrokerUntrusted, or SessionLost.

        With `from_`, past events come first: those published since, each once, although brokers may be restarted.
        """
        return await self._ask_for(Subscriber(self, self._next_number(), type_, filter, unix_time(from_)))

    async def replay(
        self,
        type_: str,
        filter: str = "",  # noqa: A002
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
        channel = self.channel
        try:
            answer = await self._begin(reader)
        except SessionLost:
            if self._closed:
                raise
            await self._connect(channel)
            answer = await self._begin(reader)
        try:
            reader.type = self._believe(answer)
        except BrokerUntrusted:
            del self.inbox.subscribers[reader.number]
            raise
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

    async def add_type(self, signed: SignedType) -> None:
        """Have a type known everywhere. Raises Refused, TypeRefused, BrokerUntrusted."""
        answer = await self.call(AddType(signed.encode()))
        self._verify(signed.definition, answer)

    async def remove_type(self, name: str) -> None:
        """Take out a type that is one's own."""
        self._believe(await self.call(RemoveType(name, removal(name, time(), self.identity))))

    async def call(self, call: Call) -> Answer:
        """Have the broker do something, in a new session if need be. Raises Refused, UnknownType, SessionLost."""
        channel = self.channel
        try:
            return await self._call(call)
        except SessionLost:
            if self._closed:
                raise
            await self._connect(channel)
            return await self._call(call)

    async def _call(self, call: Call, met: Met | None = None) -> Answer:
        """Have the broker do something in the present session; or in another, with one that was only just met."""
        key, channel, session = met or Met(self._key, self.channel, self.session)
        nonce = secrets.token_bytes(NONCE_BYTES)
        signed = SignedCall(call, self.broker, time(), nonce, session, channel.binding)
        subject = broker_subject(self.domain, self.broker, "call")
        sealed = channel.seal(CALL.sign(signed, self.identity))
        answer = unpack_answer(opened(channel, await self.bus.ask(subject, sealed, CALL_SECONDS)))
        if answer.fault:
            raise_fault(call, answer)
        if isinstance(call, Connect):
            if key is None or answer.broker != str(key):
                raise InvalidSignature
            key.verify(answer.proof, WELCOME + nonce)
        return answer

    def _believe(self, answer: Answer) -> EventType:
        """The type that was asked about, if the broker may carry it. Raises BrokerUntrusted."""
        definition = self._learn(answer.definitions)
        self._verify(definition, answer)
        return definition

    def _verify(self, definition: EventType, answer: Answer, key: PublicKey | None = None) -> None:
        key = key or self._key
        assert key is not None, "somebody has answered"
        self._trust.check(self.broker, key, definition, answer.vouches, time())

    async def _connect(self, lost: Channel | None = None) -> None:
        """Take up the session where it was left, or begin one; unless that was done since this channel was lost."""
        async with self._connecting:
            if lost is not None and lost is not self.channel is self._joined:
                return
            met, resume = await meet(self.bus, self.domain, self.broker, self.session), self.session
            another = met.key != self._key
            if not another:
                self.channel = met.channel
            connect = Connect(self.credential, self._mailbox, self._chains, resume, self.inbox.received)
            answer = await self._call(connect, met)
            if another:
                # Before that, nothing is sent to it and nothing of it is read.
                await self._verify_again(self._trust.used, met._replace(session=answer.session))
            self._key, self.channel, self._joined = met.key, met.channel, met.channel
            if not another and answer.session == resume:
                self._outgoing.resend()
                return
            self.session = answer.session
            self.inbox.begin()
            for publisher in list(self.publishers.values()):
                await self._call(Advertise(publisher.type.name))
            for subscriber in list(self.inbox.subscribers.values()):
                await self._ask_again(subscriber)
            self._outgoing.restart()
            self.sessions_begun += 1

    async def _verify_again(self, types: Iterable[EventType], met: Met | None = None) -> None:
        """Have the broker, or one only just met, show that it may carry these types. Raises BrokerUntrusted."""
        for each in types:
            answer = await self._call(Describe(each.version), met)
            self._verify(each, answer, met.key if met is not None else None)

    async def _ask_again(self, subscriber: Subscriber) -> None:
        """Go on in a new session where the old one ended; what had come is still to be read."""
        subscriber.begin_again()
        try:
            await self._call(subscriber.call)
        except CallRefused as error:
            if not isinstance(subscriber, Replayed):
                raise
            subscriber.end(str(error))

    def _reconnect(self) -> None:
        self._start(self._try_to_connect())

    async def _try_to_connect(self, lost: Channel | None = None) -> None:
        try:
            await self._connect(lost)
        except (BusError, SessionLost, InvalidSignature, CannotOpen):
            return  # the keep-alive tries again
        except (Refused, BrokerUntrusted) as error:
            self._end(str(error))

    async def _keep_alive(self) -> None:
        while not self._closed:
            await asyncio.sleep(KEEPALIVE_SECONDS)
            channel = self.channel
            try:
                subject = broker_subject(self.domain, self.broker, "received")
                word = channel.seal(pack(self.inbox.word(self.session)))
                answer = unpack_answer(opened(channel, await self.bus.ask(subject, word, CALL_SECONDS)))
                await self._verify_again(self._trust.lapsed(self._key, time()))
            except BrokerUntrusted as error:
                self._end(str(error))
                continue
            except (BusError, SessionLost):
                await self._try_to_connect(channel)
                continue
            if answer.fault == "lost":
                await self._try_to_connect(channel)
            self._outgoing.resend_old()

    def _on_post(self, payload: bytes) -> None:
        try:
            post = unpack_post(self.channel.open(payload))
        except CannotOpen:
            return  # it is delivered again to whoever takes up the session
        match post.content:
            case Delivery():
                if not self.inbox.take(post.content) and not self._connecting.locked():
                    self._reconnect()  # something is missing in between: have it sent again
            case Interest(type_, wanted):
                self.interested[type_] = wanted
                self.interest_changed.set()
            case Closed(problem):
                self._end(problem)

    def note_read(self) -> None:
        """Something was read: tell the broker how far, if it is time to, so that it sends more."""
        if self.inbox.acknowledge():
            subject = broker_subject(self.domain, self.broker, "received")
            with contextlib.suppress(NotConnected):
                self.bus.send(subject, self.channel.seal(pack(self.inbox.word(self.session))))

    def _end(self, problem: str) -> None:
        self._closed = problem
        for subscriber in self.inbox.subscribers.values():
            subscriber.end(problem)
        self._outgoing.end(problem)

    def _start(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _learn(self, definitions: tuple[bytes, ...]) -> EventType:
        """Verify definitions as any broker would; returns the last."""
        *_, last = [self.catalogue.accept(SignedType.decode(data), time()) for data in definitions]
        return last

    async def definition(self, version: str) -> EventType:
        if version not in self.catalogue:
            self._learn((await self.call(Describe(version))).definitions)
        return self.catalogue.version(version)

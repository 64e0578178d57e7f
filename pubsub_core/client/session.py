"""A client's session with a broker: taken up again when the connection was lost, begun anew when the broker was.

A client that knows several brokers hears of its own every `BEAT_SECONDS`, and goes on at another when that one does not
answer. What was published and not taken is sent again, under ids by which the stream knows it, and subscriptions go on
where they were: each knows its place in the stream, or its name does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from time import time
from typing import Any, TypeVar

from authz import AuthFabricError, Identity, PublicKey
from authz.errors import InvalidSignature
from bus.errors import BusError, NoResponders, NotConnected, ReplyTimeout
from bus.nats import Connection
from bus.runtime import in_background
from bus.wire import broker as broker_subject
from bus.wire import pack, subjects
from pep.trust import Keys, Unverified
from pubsub_core.client.broker_selection import PATIENCE_SECONDS, Brokers, Met, meet
from pubsub_core.client.calls import CALL_SECONDS, mail_place, opened, raise_fault
from pubsub_core.client.inbox import Inbox
from pubsub_core.client.keep_alive import KeepAlive
from pubsub_core.client.publisher import Outgoing, Publisher
from pubsub_core.client.replay_reader import Replayed
from pubsub_core.client.subscriber import Subscriber
from pubsub_core.errors import (
    BrokerUntrusted,
    CallRefused,
    DurableElsewhere,
    DurableRefused,
    Refused,
    SessionLost,
)
from pubsub_core.events import NONCE_BYTES
from pubsub_core.keys import CannotOpen, Channel
from pubsub_core.messages import (
    CALL,
    WELCOME,
    Advertise,
    Answer,
    Call,
    Closed,
    Connect,
    Delivery,
    Describe,
    Disconnect,
    Drained,
    Interest,
    SignedCall,
    unpack_answer,
    unpack_post,
)
from pubsub_core.trust import BrokerTrust
from pubsub_core.types import Catalogue, EventType, SignedType

T = TypeVar("T")

MAX_MOVES = 8
"""Maximum redirections between brokers before a client starts again."""

_log = logging.getLogger("authfabric.events")


class ClientSession:
    """One client's session with one broker at a time."""

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
        self.bus = bus
        self.brokers = brokers
        self.broker = "" if brokers.many else brokers.names[0]
        """The name of the broker that is spoken to."""
        self.domain = domain
        self.identity = identity
        self.credential = credential
        self._chains = chains
        self._trusted = trust
        self._trust = BrokerTrust(trust, credential)
        self.catalogue = Catalogue()
        self.channel: Channel
        """By which the broker is spoken to; there is one from the moment it was first met."""
        self._key: PublicKey | None = None
        """The key of the broker that is spoken to."""
        self._joined: Channel | None = None
        """The last on which the session was taken up."""
        self._lost = ""
        """The broker that did not answer, or is about to end."""
        self.session = ""
        self.sessions_begun = 0
        """How often a session was begun anew: more than once if the broker forgot it meanwhile, or was lost."""
        self.inbox = Inbox()
        self.closed = ""
        """Why the session has ended for good; empty while it lasts."""
        self.publishers: dict[str, Publisher] = {}
        self._outgoing = Outgoing(self)
        self._mailbox = subjects.mailbox(domain, mail_place(bus), secrets.token_hex(8))
        self._connecting = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._asking: set[asyncio.Future[bytes]] = set()
        """What the broker was asked and has not answered."""
        self.interested: dict[str, bool] = {}
        """Whether anybody wants the types published, by UUID, as the broker last said."""
        self.interest_changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have a session for the length of the block. Raises Refused, NoBroker, BrokerUntrusted."""
        bus = self.bus
        mail = await bus.listen(self._mailbox, lambda subject, reply, data, headers: self._on_post(data))
        try:
            await self._connect()
        except (NoResponders, ReplyTimeout) as error:
            if isinstance(error, ReplyTimeout) and not self.brokers.many:
                raise
            raise self.brokers.missing(self.domain) from None
        bus.on_ready.append(self._reconnect)
        try:
            async with contextlib.AsyncExitStack() as stack:
                in_background(stack, KeepAlive(self).run)
                yield
        finally:
            bus.on_ready.remove(self._reconnect)
            for task in self._tasks:
                task.cancel()
            self._outgoing.hurry()
            with contextlib.suppress(BusError, Refused, SessionLost):
                await self._call(Disconnect())
            with contextlib.suppress(BusError):
                await mail.cancel()

    @property
    def joined(self) -> bool:
        """Whether the broker that is spoken to knows the session, and all that belongs to it."""
        return self.channel is self._joined

    async def call(self, call: Call) -> Answer:
        """Have the broker do something, in a new session if need be. Raises Refused, UnknownType, SessionLost."""
        return await self._insist(lambda: self._call(call))

    async def _insist(self, ask: Callable[[], Coroutine[object, object, Answer]]) -> Answer:
        """What is answered to a call, which is made again where the session was taken up again, or begun anew."""
        channel = self.channel
        try:
            return await ask()
        except SessionLost:
            if self.closed:
                raise
        except (NoResponders, ReplyTimeout):
            if not self.brokers.many and self.channel is channel:
                raise
            # Where the session was taken up meanwhile, the connection was lost, and perhaps the call with it.
            self.lose(channel)
        await self._connect(channel)
        return await ask()

    async def _call(self, call: Call, met: Met | None = None) -> Answer:
        """Have the broker do something in the present session; or in another, with one that was only just met."""
        now = met or Met(self._key, self.channel, self.session, self.broker)
        nonce = secrets.token_bytes(NONCE_BYTES)
        signed = SignedCall(call, now.broker, time(), nonce, now.session, now.channel.binding)
        sealed = now.channel.seal(CALL.sign(signed, self.identity))
        subject = broker_subject(self.domain, now.broker, "call")
        asked = self.bus.ask(subject, sealed, CALL_SECONDS)
        # Whoever takes up a session is not to be broken off by its own doing.
        reply = await (asked if met is not None or self._connecting.locked() else self._unless_lost(asked))
        answer = unpack_answer(opened(now.channel, reply))
        if answer.fault:
            raise_fault(call, answer)
        if isinstance(call, Connect):
            if now.key is None or answer.broker != str(now.key):
                raise InvalidSignature
            now.key.verify(answer.proof, WELCOME + nonce)
        return answer

    async def _unless_lost(self, asked: Coroutine[object, object, bytes]) -> bytes:
        """What a broker answers. Raises SessionLost as soon as it is given up."""
        asking = asyncio.ensure_future(asked)
        self._asking.add(asking)
        try:
            return await asking
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not asking.cancelled() or (task is not None and task.cancelling()):
                asking.cancel()
                raise
            raise SessionLost("the broker does not answer: another is looked for") from None
        finally:
            self._asking.discard(asking)

    def _believe(self, answer: Answer) -> EventType:
        """The type that was asked about, if the broker may carry it. Raises BrokerUntrusted."""
        definition = self._learn(answer.definitions)
        self._verify(definition, answer)
        return definition

    def _verify(self, definition: EventType, answer: Answer, met: Met | None = None) -> None:
        key, name = (met.key, met.broker) if met is not None else (self._key, self.broker)
        assert key is not None, "somebody has answered"
        self._trust.check(name, key, definition, answer.vouches, time())

    async def _connect(self, lost: Channel | None = None) -> None:
        """Take up the session where it was left, or begin one; unless that was done since this channel was lost."""
        async with self._connecting:
            if lost is not None and lost is not self.channel is self._joined:
                return
            wanted = ""
            for _ in range(MAX_MOVES):
                met = await self._meet(wanted)
                try:
                    await self._join(met)
                    return
                except DurableElsewhere as error:
                    wanted = error.broker
            raise SessionLost("brokers do not agree on who delivers the durable subscription")

    async def _meet(self, wanted: str) -> Met:
        """Meet the broker that has the durable subscription, if any has; whoever takes it up otherwise."""
        if wanted:
            try:
                return await meet(self.bus, self.domain, wanted, self.session, seconds=PATIENCE_SECONDS)
            except BusError:
                self._lost = wanted
        return await self.brokers.meet(self.bus, self.domain, self.session, self.broker, self._lost)

    async def _join(self, met: Met) -> None:
        resume, another = self.session, met.key != self._key
        if not another:
            self.channel = met.channel
        connect = Connect(self.credential, self._mailbox, self._chains, resume, self.inbox.received)
        answer = await self._call(connect, met)
        if another:
            # Before that, nothing is sent to it and nothing of it is read.
            await self._verify_again(self._trust.used, met._replace(session=answer.session))
        self.broker, self._key, self.channel = met.broker, met.key, met.channel
        if not another and answer.session == resume:
            self._joined = met.channel
            self._outgoing.resend()
            return
        self.session = answer.session
        try:
            await self._restore()
        except BaseException:
            # The broker knows the session, and not all that belongs to it: another is begun the next time.
            self.session = ""
            raise
        self._joined = met.channel
        self._outgoing.restart()
        self.sessions_begun += 1
        if self._lost:
            _log.warning("the broker `%s` is lost, and `%s` is in its place", self._lost, self.broker)
            self._lost = ""

    async def _restore(self) -> None:
        """Have the broker know in a new session what it knew in the one before."""
        self.inbox.begin()
        for publisher in list(self.publishers.values()):
            await self._call(Advertise(publisher.type.name))
        for subscriber in list(self.inbox.subscribers.values()):
            await self._ask_again(subscriber)

    async def _verify_again(self, types: Iterable[EventType], met: Met | None = None) -> None:
        """Have the broker, or one only just met, show that it may carry these types. Raises BrokerUntrusted."""
        for each in types:
            answer = await self._call(Describe(each.version), met)
            self._verify(each, answer, met)

    async def _ask_again(self, subscriber: Subscriber) -> None:
        """Go on in a new session where the old one ended; what had come is still to be read."""
        subscriber.begin_again()
        try:
            answer = await self._call(subscriber.resuming(self._lost))
        except CallRefused as error:
            if not isinstance(subscriber, Replayed):
                raise
            subscriber.end(str(error))
            return
        if subscriber.type is None:
            subscriber.type = self._believe(answer)
        subscriber.go_on(answer.position)

    def _reconnect(self) -> None:
        self.start(self.try_to_connect())

    async def try_to_connect(self, lost: Channel | None = None) -> bool:
        """Take the session up again; says whether that is done.

        What may pass is left to the keep-alive, and what cannot ends the session.
        """
        try:
            await self._connect(lost)
            return True
        except CallRefused as error:
            if error.fault != "failed":
                self.end(str(error))
        except BrokerUntrusted as error:
            if not self.brokers.many:
                self.end(str(error))
            self._lost = error.broker
        except (Refused, DurableRefused) as error:
            self.end(str(error))
        except AuthFabricError as error:  # a broker that has just started may not know the types yet
            _log.info("the session cannot be taken up for the moment: %s", error)
        return False

    async def beat(self) -> bool:
        """Tell the broker that the client is there, and see that it may still be; says whether it knows the session."""
        answer = await self.report(seconds=PATIENCE_SECONDS if self.brokers.many else CALL_SECONDS)
        await self._verify_again(self._trust.lapsed(self._key, time()))
        return answer.fault != "lost"

    def resend_old(self) -> None:
        """Publish again what has waited for long."""
        self._outgoing.resend_old()

    async def report(
        self, seconds: float = CALL_SECONDS, acked: dict[int, list[int]] | None = None
    ) -> Answer:
        """Tell the broker what was read and acknowledged; it answers when it has kept that."""
        channel, subject = self.channel, broker_subject(self.domain, self.broker, "received")
        word = channel.seal(pack(self.inbox.word(self.session, acked)))
        asked = self._unless_lost(self.bus.ask(subject, word, seconds))
        return unpack_answer(opened(channel, await asked))

    def lose(self, channel: Channel) -> None:
        """The broker does not answer on this channel: look for another, and wait for nothing that it was asked."""
        if channel is self.channel and self.brokers.many:
            self._lost = self.broker
            for each in tuple(self._asking):
                each.cancel()

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
            case Drained():
                if self.brokers.many:
                    self.lose(self.channel)
                    self.start(self.try_to_connect(self.channel))
            case Closed(problem):
                self.end(problem)

    def note_read(self) -> None:
        """Something was read: tell the broker how far, if it is time to, so that it sends more."""
        if self.inbox.acknowledge():
            subject = broker_subject(self.domain, self.broker, "received")
            with contextlib.suppress(NotConnected):
                self.bus.send(subject, self.channel.seal(pack(self.inbox.word(self.session))))

    def end(self, problem: str) -> None:
        self.closed = problem
        for subscriber in self.inbox.subscribers.values():
            subscriber.end(problem)
        self._outgoing.end(problem)

    def start(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Have something done while the session lasts."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _learn(self, definitions: tuple[bytes, ...]) -> EventType:
        """Verify definitions as any broker would; returns the last."""
        *_, last = [self.catalogue.accept(SignedType.decode(data), time()) for data in definitions]
        return last

    async def definition(self, version: str) -> EventType:
        if version not in self.catalogue:
            self._learn((await self.call(Describe(version))).definitions)
        return self.catalogue.version(version)

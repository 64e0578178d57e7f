"""A broker's endpoints on the bus: the subjects on which clients, under encryption, and other brokers reach it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from time import time

from bus.errors import BadMessage, BusError, NotConnected
from bus.nats import Connection
from bus.services import responding
from bus.wire import broker as broker_subject
from bus.wire import pack, subjects
from pubsub_core.broker import Broker
from pubsub_core.delivery import Session
from pubsub_core.keys import CannotOpen, Channel, Channels
from pubsub_core.messages import (
    BROKER_KEY,
    Answer,
    BrokerKey,
    Taken,
    unpack_bundle,
    unpack_received,
)
from pubsub_core.replay import Pages
from pubsub_core.server.durable_service import Durables
from pubsub_core.server.rpc_handlers import Calls


class Endpoints:
    """Passes messages on the bus to the part of a broker that they are for."""

    def __init__(
        self, bus: Connection, broker: Broker, calls: Calls, pages: Pages, durables: Durables, group: str
    ) -> None:
        """Whoever looks for any broker of the group finds this one too."""
        self._bus = bus
        self._broker, self._setting = broker, broker.setting
        self._calls = calls
        self._pages = pages
        self._durables = durables
        self._group = group
        self._channels = Channels()
        self.draining = False
        """Whether clients are to go elsewhere: nobody begins a channel here any more."""
        self.closed = False
        """Whether no publication is looked at any more: its publisher sends it again, elsewhere or later."""

    async def open(self, stack: contextlib.AsyncExitStack) -> None:
        """Listen, for as long as the stack is open."""
        bus, own, domain = self._bus, self._setting.name, self._setting.domain
        presence = self._broker.presence
        records = subjects.broker_record(None, "*", ">")
        await bus.listen(records, lambda subject, r, data, h: presence.hear(subject, data))
        await bus.listen(subjects.past(None, own), lambda s, r, data, h: self._pages.hear(data))
        await bus.listen(broker_subject(domain, own, "publish"), self._on_publish)
        await bus.listen(broker_subject(domain, own, "received"), self._on_received)
        busy = pack(Answer("the broker is busy: try again", "failed"))
        call = broker_subject(domain, own, "call")
        await stack.enter_async_context(
            responding(bus, [call], self._on_call, busy=busy, at_once=16, waiting=1024)
        )

    async def admit(self) -> None:
        """Let clients in: those who look for this broker, or for any of its group."""
        for name in {self._setting.name, self._group or self._setting.name}:
            await self._bus.listen(broker_subject(self._setting.domain, name, "key"), self._on_key_wanted)
        with contextlib.suppress(BusError):  # without a connection nobody gets here anyway
            await self._bus.flush()

    def _on_publish(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if self.closed or not subjects.is_inbox(reply):
            return
        try:
            message, channel = self._channels.open(payload)
        except CannotOpen:
            return

        def answer(taken: Taken) -> None:
            with contextlib.suppress(NotConnected):  # it will be sent again, and recognised
                self._bus.send(reply, channel.seal(pack(taken)))

        try:
            bundle = unpack_bundle(message)
        except BadMessage as error:
            answer(Taken(0, problem=str(error)))
            return
        if self._session(bundle.session, channel) is None:
            answer(Taken(bundle.number, problem="there is no such session"))
        else:
            self._broker.publish(bundle, answer)

    def _session(self, token: str, channel: Channel) -> Session | None:
        """The session that has this token, if it is spoken of on its own channel: on another it is worth nothing."""
        session = self._broker.sessions.get(token)
        return session if session is not None and session.channel is channel else None

    def _on_key_wanted(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        """Begin a channel with a client that shows its half."""
        if not subjects.is_inbox(reply) or self.draining:
            return
        with contextlib.suppress(CannotOpen):
            key = BrokerKey(self._setting.name, self._channels.answer(payload), payload)
            self._setting.send(reply, BROKER_KEY.sign(key, self._setting.identity))

    async def _on_call(self, payload: bytes) -> bytes:
        try:
            message, channel = self._channels.open(payload)
        except CannotOpen as error:
            return pack(Answer(str(error), "refused"))
        return channel.seal(await self._calls.answer(message, channel))

    def _on_received(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        try:
            message, channel = self._channels.open(payload)
        except CannotOpen as error:
            if subjects.is_inbox(reply):  # the broker may have started anew, and the client does not know
                self._setting.send(reply, pack(Answer(str(error), "lost")))
            return
        received = unpack_received(message)
        session = self._session(received.session, channel)

        def answer() -> None:
            if subjects.is_inbox(reply):
                fault = "" if session is not None else "lost"
                self._setting.send(reply, channel.seal(pack(Answer(fault=fault))))

        if session is None:
            answer()
            return
        session.heard = time()
        session.send_window.acknowledge(received.number)
        session.past_read = received.past
        if not self._acknowledge(session, received.acked, answer):
            answer()
        self._broker.flush(session)

    def _acknowledge(self, session: Session, acked: dict[int, list[int]], then: Callable[[], None]) -> bool:
        """Take what a client acknowledges of a durable subscription; whether `then` is called when that is stored."""
        stored = False
        for number, places in acked.items():
            subscription = session.subscriptions.get(number)
            if subscription is not None and subscription.cursor is not None:
                subscription.cursor.settle(places)
                stored = self._durables.saved(subscription.cursor, then)
        return stored

"""FastStream on events: handlers as they were written for NATS, whose subjects are types of events.

    broker = EventBroker(profile="billing")            # was: NatsBroker("nats://…")

    @broker.subscriber("Sighting", queue="bills")
    @broker.publisher("Billed")
    async def bill(sighting: Sighting) -> Billed: ...

What handlers hear and say goes through the event service: under the policies for the profile, sealed where the type is.
Nothing is heard of, or said on, plain subjects. A `queue` is a durable subscription, shared by all who name it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from authz.extras import needing
from bus.errors import BusError
from bus.runtime import end_task
from pubsub_core.client import (
    Delivered,
    DurableEvent,
    EventClient,
    Profile,
    Subscriber,
    json_values,
    read_values,
)
from pubsub_core.errors import EventError
from pubsub_core.events import Gap

with needing("faststream"):
    from faststream import BaseMiddleware
    from faststream.exceptions import AckMessage, FeatureNotSupportedException, RejectMessage
    from faststream.nats import NatsBroker

OnGap = Callable[[Gap], None]

_log = logging.getLogger("authfabric.events")


class EventBroker(NatsBroker):
    """FastStream's broker for NATS, on the event service."""

    def __init__(
        self,
        profile: str | Path | Profile | None = None,
        *,
        url: str | None = None,
        filters: Mapping[str, str] | None = None,
        on_gap: OnGap | None = None,
        **options: Any,
    ) -> None:
        """`filters` says which events of a type handlers get; `on_gap` is told what they miss, by default the log is.

        What else can be said of a NatsBroker, but its servers and its security, can be said here.
        """
        options["middlewares"] = (*options.get("middlewares", ()), _Acknowledging)
        super().__init__(**options)
        self._profile = profile
        self._url = url
        self._filters = filters or {}
        self._on_gap = on_gap or _log_gap

    async def _connect(self) -> Any:
        connection = _EventConnection(self._filters, self._on_gap)
        await connection.open(self._url, self._profile)
        self.config.connect(connection)
        return connection


@dataclass
class _Message:
    """An event in the form in which FastStream reads messages of NATS."""

    event: Delivered
    subject: str
    data: bytes
    header: dict[str, str]
    reply: str = ""
    _ackd: bool = False

    @classmethod
    def of(cls, event: Delivered) -> _Message:
        header = {
            "content-type": "application/json",
            "message_id": f"{event.publisher}:{event.sequence}",
            "event-publisher": str(event.publisher),
            "event-time": repr(event.time),
        }
        return cls(event, event.type.name, msgspec.json.encode(json_values(event.attributes)), header)

    @property
    def headers(self) -> dict[str, str]:
        return self.header


class _Acknowledging(BaseMiddleware):
    """Acknowledges events of durable subscriptions when their handler is done with them."""

    async def after_processed(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> bool:
        done = exc_type is None or issubclass(exc_type, AckMessage | RejectMessage)
        event = getattr(self.msg, "event", None)
        if done and isinstance(event, DurableEvent):
            await event.ack()
        return False


class _NoStreams:
    """Stands where FastStream looks for JetStream."""

    def __getattr__(self, name: str) -> Any:
        raise FeatureNotSupportedException(
            "events are in no stream of yours: `@broker.subscriber(TYPE, queue=NAME)` is a durable subscription"
        )


Handle = Callable[[_Message], Awaitable[object]]


@dataclass(eq=False)
class _EventConnection:
    """The event service in the form in which FastStream speaks to a NATS server."""

    filters: Mapping[str, str]
    on_gap: OnGap
    is_connected: bool = False
    """Whether handlers can hear, and publish."""
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _publishing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self, url: str | None, profile: str | Path | Profile | None) -> None:
        """Begin a session. Raises as `EventClient.connect` does."""
        began: asyncio.Future[EventClient] = asyncio.get_running_loop().create_future()
        self._session = asyncio.create_task(self._hold(EventClient.connect(url, profile=profile), began))
        self.client = await began

    async def _hold(
        self, session: AbstractAsyncContextManager[EventClient], began: asyncio.Future[EventClient]
    ) -> None:
        """Keep the session up until the connection is drained."""
        try:
            async with session as client:
                self.is_connected = True
                began.set_result(client)
                await self._closing.wait()
        except Exception as error:
            if began.done():
                raise
            began.set_exception(error)
        finally:
            self.is_connected = False

    async def drain(self) -> None:
        self._closing.set()
        await self._session

    def jetstream(self, **options: object) -> Any:
        return _NoStreams()

    async def subscribe(
        self,
        subject: str,
        queue: str = "",
        cb: Handle | None = None,
        **options: object,
    ) -> _Subscription:
        if cb is None:
            raise FeatureNotSupportedException("events are handled by handlers: `@broker.subscriber(TYPE)`")
        subscription = _Subscription(self, subject)
        await subscription.begin(queue, cb)
        return subscription

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Publish an event; returns when the broker has taken it. Raises EventError."""
        if reply:
            raise FeatureNotSupportedException("nobody replies to an event")
        async with self._publishing:  # so that each hears of its own event
            publisher = self.client.publishers.get(subject) or await self.client.publisher(subject)
            known = self.client.catalogue.attributes(publisher.type.version).values()
            await publisher.publish(**read_values(payload, {each.name: each for each in known}))
            await publisher.flush()

    async def request(self, *given: object, **named: object) -> Any:
        raise FeatureNotSupportedException("nobody replies to an event")


@dataclass(eq=False)
class _Subscription:
    """Events of one type on their way to a handler."""

    connection: _EventConnection
    type: str
    _ended: bool = False

    async def begin(self, queue: str, handle: Handle) -> None:
        """Raises Refused, UnknownType and so on."""
        client, filter_ = self.connection.client, self.connection.filters.get(self.type, "")
        if queue:
            self._reader: Subscriber = await client.subscriber(
                self.type, filter_, durable=queue, manual_ack=True
            )
        else:
            self._reader = await client.subscriber(self.type, filter_)
        self._task = asyncio.create_task(self._run(self._reader, handle))

    async def unsubscribe(self) -> None:
        self._ended = True
        if asyncio.current_task() is not self._task:  # a handler may end its own subscription
            await end_task(self._task)
        with contextlib.suppress(EventError, BusError):
            await self._reader.cancel()

    async def _run(self, reader: Subscriber, handle: Handle) -> None:
        """Hand over what comes; when nothing can come any more, say so."""
        try:
            async for event in reader:
                if isinstance(event, Gap):
                    self.connection.on_gap(event)
                else:
                    await handle(_Message.of(event))
                if self._ended:
                    return
        except EventError as error:
            self.connection.is_connected = False
            _log.error("handlers of `%s` get nothing any more: %s", self.type, error)


def _log_gap(gap: Gap) -> None:
    _log.warning("events are missing: %s", gap)

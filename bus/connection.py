"""A connection to NATS that survives dead and frozen servers, expired credentials and hostile messages."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import os
import random
import re
import secrets
from collections.abc import Callable, Iterable
from time import monotonic
from types import TracebackType
from typing import Any, Self

import nats.errors
from nats.js import JetStreamContext

from authz import Identity
from bus.client import NO_RESPONDERS, GuardedClient, Handler
from bus.errors import BadMessage, NoResponders, NotConnected, ReplyTimeout

URL_VARIABLE = "AUTHFABRIC_NATS_URL"
REBUILD_SECONDS = 0.2

_log = logging.getLogger("authfabric.bus")

_SURVIVE_FROZEN_NODES: dict[str, Any] = {
    "reconnect_time_wait": 0.05,
    "max_reconnect_attempts": -1,
    "ping_interval": 1,
    "max_outstanding_pings": 2,
    "connect_timeout": 2,
}

ReplyHandler = Callable[[bytes, bool], None]
"""Called with the payload of an answer, or with True if the server says that nobody listens."""


class Subscription:
    """An interest that can be dropped again."""

    def __init__(self, connection: Connection, subject: str, handler: Handler, queue: str) -> None:
        self._connection = connection
        self.subject = subject
        self.handler = handler
        self.queue = queue
        self.number = 0

    async def cancel(self) -> None:
        """Drop the interest and return when everything sent to it has been handled."""
        await self._connection.cancel([self])


class Connection:
    """One connection, shared by everything in the process: `async with Connection(url) as bus`."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "authfabric",
        identity: Identity | None = None,
        connect_seconds: float = 5.0,
    ) -> None:
        """`url` may name several servers, separated by commas. The identity signs the server's challenge."""
        self.url = url
        self.address = without_secrets(url)
        """The URL as it may be shown to anyone."""
        self.name = name
        self._identity = identity
        self._connect_seconds = connect_seconds
        self._client = GuardedClient(self._on_lost)
        self._subscriptions: set[Subscription] = set()
        self._inbox = f"_INBOX_{secrets.token_hex(8)}"
        self._expected: dict[str, ReplyHandler] = {}
        self._next_reply = 0
        self._opening = False
        self._closing = False
        self._rebuild: asyncio.Task[None] | None = None
        self._dropped_before = 0
        self.ready = False
        """Whether messages can be sent, and answers will be heard, right now."""
        self.lost_at = 0.0
        """When the connection was lost, by the monotonic clock; meaningless while it is ready."""
        self._ready_event = asyncio.Event()
        self.on_ready: list[Callable[[], None]] = []
        """What to do whenever the connection has come back: others may have forgotten us meanwhile."""
        self.last_error = ""
        self.reconnects = 0

    async def __aenter__(self) -> Self:
        self._subscriptions.add(Subscription(self, f"{self._inbox}.*", self._on_reply, ""))
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def dropped(self) -> int:
        """How many hostile or malformed messages were dropped since the start."""
        return self._dropped_before + self._client.dropped

    @property
    def server(self) -> str:
        """The address of the server connected to at this moment."""
        url = self._client.connected_url
        return f"{url.hostname}:{url.port}" if url is not None else ""

    @property
    def clustered(self) -> bool:
        """Whether the server connected to is one of a cluster."""
        return bool(self._client._server_info.get("cluster"))

    def send(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Publish now, without waiting."""
        client = self._client
        if not self.ready:
            raise NotConnected(self.address, self.last_error)
        if len(payload) > client.max_payload:
            raise BadMessage("payload", f"has {len(payload)} bytes; the server takes {client.max_payload}")
        try:
            client.send(subject, payload, reply)
        except (OSError, RuntimeError) as error:  # uvloop's word for a socket that closed a moment ago
            raise NotConnected(self.address, _words(error)) from None

    async def listen(self, subject: str, handler: Handler, queue: str = "") -> Subscription:
        """Call the handler for each message on the subject; it survives reconnects."""
        if self._closing:
            raise NotConnected(self.address, "the connection is closed")
        subscription = Subscription(self, subject, handler, queue)
        self._subscriptions.add(subscription)
        if not self._opening and not self._client.is_closed:  # else `_open` does it
            subscription.number = await self._client.listen(subject, handler, queue)
        return subscription

    async def cancel(self, subscriptions: Iterable[Subscription]) -> None:
        """Drop these interests and return when everything sent to them has been handled."""
        dropped = list(subscriptions)
        self._subscriptions.difference_update(dropped)
        client = self._client
        for subscription in dropped:
            await client.unlisten(subscription.number)
        try:
            if client.is_connected:
                await self.flush()
        finally:
            for subscription in dropped:
                client.forget(subscription.number)

    def expect(self, handler: ReplyHandler) -> str:
        """Listen for answers; returns the reply subject to send the question with. End it by `forget`."""
        self._next_reply += 1
        reply = f"{self._inbox}.{self._next_reply}"
        self._expected[reply] = handler
        return reply

    def forget(self, reply: str) -> None:
        """Drop the interest in further answers: a late one costs one dictionary look-up."""
        self._expected.pop(reply, None)

    async def ask(
        self, subject: str, payload: bytes, seconds: float, valid: Callable[[bytes], bool] = lambda _: True
    ) -> bytes:
        """Send one question and return the first valid answer."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def take(data: bytes, nobody: bool) -> None:
            if answer.done():
                return
            if nobody:
                answer.set_exception(NoResponders(subject))
            elif valid(data):
                answer.set_result(data)

        reply = self.expect(take)
        try:
            self.send(subject, payload, reply)
            return await asyncio.wait_for(answer, seconds)
        except TimeoutError:
            raise ReplyTimeout(subject, seconds) from None
        finally:
            self.forget(reply)

    async def flush(self, seconds: int = 5) -> None:
        """Return when the server has handled everything sent so far."""
        if not self._client.is_connected:
            raise NotConnected(self.address, self.last_error)
        try:
            await self._client.flush(timeout=seconds)
        except (nats.errors.Error, OSError, RuntimeError, TimeoutError) as error:
            raise NotConnected(self.address, _words(error)) from None

    async def wait_ready(self, seconds: float) -> bool:
        """Wait until the connection can be used, at most so long; says whether it can."""
        if not self.ready:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready_event.wait(), seconds)
        return self.ready

    def jetstream(self) -> JetStreamContext:
        """The library's own JetStream interface, for the modules of this package."""
        return self._client.jetstream()

    async def has_jetstream(self) -> bool:
        """Whether the server keeps streams and key-value stores."""
        try:
            await self.jetstream().account_info()
        except (nats.errors.Error, OSError, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        self._closing = True
        self._set_ready(False)
        if self._rebuild is not None:
            await _end(self._rebuild)
        await self._client.close()

    async def _open(self) -> None:
        client = self._client
        self._opening = True
        try:
            await self._connect(client)
            self._opening = False
            for subscription in list(self._subscriptions):
                subscription.number = await client.listen(
                    subscription.subject, subscription.handler, subscription.queue
                )
            await self.flush()
        except (nats.errors.Error, OSError, TimeoutError) as error:
            await self._discard(client)
            raise NotConnected(self.address, self.last_error or _words(error)) from None
        except BaseException:
            await self._discard(client)
            raise
        self._set_ready(client.is_connected)

    async def _discard(self, client: GuardedClient) -> None:
        """Close a client that did not come up, or it would go on trying, and hear everything twice."""
        self._opening = False
        await client._close(GuardedClient.CLOSED, False)

    async def _connect(self, client: GuardedClient) -> None:
        connecting = asyncio.create_task(self._try_servers(client))
        try:
            await asyncio.wait([connecting], timeout=self._connect_seconds)
            if not connecting.done():
                raise TimeoutError
            connecting.result()
        finally:
            await _end(connecting)
        if not client.is_connected:  # the library can return unconnected when authentication is slow
            raise NotConnected(self.address, self.last_error or "the server did not accept the connection")

    async def _try_servers(self, client: GuardedClient) -> None:
        """Try one server after the other, without end."""
        if self._identity is not None:
            client._public_nkey = str(self._identity.public)
        servers = [url.strip() for url in self.url.split(",")]
        await client.connect(
            random.sample(servers, len(servers)),
            dont_randomize=True,  # this one shuffles by itself, or it could not tell whom to try last
            name=self.name,
            error_cb=self._on_error,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_closed,
            signature_cb=self._sign if self._identity is not None else None,
            inbox_prefix=self._inbox,
            **_SURVIVE_FROZEN_NODES,
        )

    def _sign(self, nonce: str) -> bytes:
        assert self._identity is not None
        return base64.b64encode(self._identity.sign(nonce.encode()))

    def _set_ready(self, ready: bool) -> None:
        if ready == self.ready:
            return
        self.ready = ready
        if ready:
            self._ready_event.set()
            for action in self.on_ready:
                action()
        else:
            self._ready_event.clear()
            self.lost_at = monotonic()

    def _on_reply(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        handler = self._expected.get(subject)
        if handler is not None:
            handler(payload, headers.startswith(NO_RESPONDERS))

    async def _on_error(self, error: Exception) -> None:
        self.last_error = _words(error)
        _log.debug("bus error on %s: %s", self.address, self.last_error)
        if self._opening and "authorization" in self.last_error.lower():
            # Otherwise the library would try again for minutes.
            raise NotConnected(self.address, self.last_error)

    def _on_lost(self) -> None:
        self._set_ready(False)

    async def _on_reconnected(self) -> None:
        self.reconnects += 1
        self._set_ready(self._client.is_connected)

    async def _on_closed(self) -> None:
        """Begin again with a new client: the library gives up for good on some errors, such as expired credentials."""
        if not self._closing and self._rebuild is None:
            self._rebuild = asyncio.create_task(self._build_again())

    async def _build_again(self) -> None:
        while True:
            self._dropped_before += self._client.dropped
            self._client = GuardedClient(self._on_lost)
            try:
                await self._open()
                break
            except NotConnected:
                await asyncio.sleep(REBUILD_SECONDS)
        self._rebuild = None
        self.reconnects += 1


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended: what waits inside may take a cancellation for its own and go on."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.05)


def _words(error: Exception) -> str:
    """What the library says, without its own name and the server's quotes."""
    if isinstance(error, TimeoutError) or not str(error):
        return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    return str(error).removeprefix("nats: ").strip("'\"")


def without_secrets(url: str) -> str:
    """The URL without the user name, password or token in it."""
    return re.sub(r"//[^/@,]*@", "//", url)


def configured_url() -> str | None:
    """The external server named by the environment, if any."""
    return os.environ.get(URL_VARIABLE) or None

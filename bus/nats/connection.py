"""A connection to NATS that survives dead and frozen servers, expired credentials and hostile messages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from typing import Self

import nats.errors
from nats.js import JetStreamContext

from bus.errors import BadMessage, NoResponders, NotConnected, ReplyTimeout
from bus.identity import Credentials
from bus.nats.balancing import Balancer
from bus.nats.client import GuardedClient, Handler, Node
from bus.nats.dialing import (
    ADMISSION_SECONDS,
    NEEDS_CREDENTIALS,
    UNDECIDED,
    Avoid,
    Call,
    is_refusal,
    is_undecided,
    words,
)
from bus.nats.handover import LEAVE_SECONDS, MEET_SECONDS, Handover
from bus.nats.permission_refusals import Unanswered
from bus.nats.renewal import renewing
from bus.nats.subscription import Replies, Subscription
from bus.runtime import Work, begin_work, end_task
from bus.wire import servers, subjects, without_secrets

REBUILD_SECONDS = 0.2
"""Pause after the first attempt to build a connection anew; doubled with each further one, with jitter."""
MOST_REBUILD_SECONDS = 5.0
"""Longest pause between two attempts."""
UNREADY_SECONDS = 3.0
"""Time after which a connection that has not come back by itself is built anew: the library may wait for ever in a
handshake that the server has given up."""
FINISH_SECONDS = 5.0
"""How long a connection that was replaced waits for the answers it still expects."""

JETSTREAM_SECONDS = 10.0
"""How long the library waits for an answer of JetStream; whoever calls it has a bound of their own, mostly less."""
_NOBODY = "anybody"
"""In place of a key's own word, for those who have no key."""

_log = logging.getLogger("authfabric.bus")


class Connection:
    """One connection, shared by everything in the process: `async with Connection(url) as bus`."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "authfabric",
        credentials: Credentials | None = None,
        connect_seconds: float = 5.0,
        admission_seconds: float = ADMISSION_SECONDS,
        avoid: Avoid = lambda server: False,
    ) -> None:
        """`url` may name several servers, separated by commas; those to `avoid` are tried last.

        The credentials answer the servers' challenge, for which `admission_seconds` are left at the start.
        """
        self.url = url
        self.address = without_secrets(url)
        """The URL as it may be shown to anyone."""
        self.name = name
        self.credentials = credentials
        """What it connects with from the next time on."""
        self._connect_seconds, self._admission_seconds = connect_seconds, admission_seconds
        self.avoid = avoid
        self._balancer, self.unanswered = Balancer(self), Unanswered()
        self._client = self._new_client()
        self._subscriptions: set[Subscription] = set()
        own, key = secrets.token_hex(8), None if credentials is None else credentials.identity.public
        self._inbox = f"_INBOX_{own}" if key is None else f"{subjects.inbox(key)}.{own}"
        self._replies = Replies(f"{subjects.answers(_NOBODY if key is None else subjects.place(key))}.{own}")
        self.expect, self.forget = self._replies.expect, self._replies.forget
        self._closing = False
        self._rebuild: asyncio.Task[None] | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._renewing: Work | None = None
        self._changing = asyncio.Lock()
        self._dropped_before = 0
        self.ready = False
        """Whether messages can be sent, and answers will be heard, right now."""
        self._ready_event = asyncio.Event()
        self.on_ready: list[Callable[[], None]] = []
        """What to do whenever the connection has come back: others may have forgotten us meanwhile."""
        self.last_error, self.reconnects = "", 0

    async def __aenter__(self) -> Self:
        if self.url.startswith("tls:") and (self.credentials is None or self.credentials.tls is None):
            raise NotConnected(self.address, NEEDS_CREDENTIALS)
        self._subscriptions.add(Subscription(self, f"{self._replies.place}.*", self._replies.hear, ""))
        await self._open()
        self._admission_seconds = 0.0
        if self.credentials is not None:
            self._renewing = begin_work(partial(renewing, self))
        return self

    async def __aexit__(self, *_: object) -> None:
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
    def node(self) -> Node:
        """What the server connected to says of itself."""
        return self._client.node

    @property
    def own_place(self) -> str:
        """Below this, what servers say reaches this connection and no other."""
        return f"{self._inbox}.own"

    @property
    def clustered(self) -> bool:
        """Whether the server connected to is one of a cluster."""
        return self._client.clustered

    @property
    def keeps_nothing(self) -> bool:
        """Whether there can be no stream here: the server is alone, and says that it has no JetStream."""
        return not self.clustered and not self._client._server_info.get("jetstream")

    def send(self, subject: str, payload: bytes, reply: str = "", headers: bytes = b"") -> None:
        """Publish now, without waiting; `headers` are as they travel."""
        client = self._client
        if not self.ready:
            raise NotConnected(self.address, self.last_error)
        if len(payload) > client.max_payload:
            raise BadMessage("payload", f"has {len(payload)} bytes; the server takes {client.max_payload}")
        try:
            client.send(subject, payload, reply, headers)
        except (OSError, RuntimeError) as error:  # uvloop's word for a socket that closed a moment ago
            raise NotConnected(self.address, words(error)) from None

    async def listen(self, subject: str, handler: Handler, queue: str = "") -> Subscription:
        """Call the handler for each message on the subject; it survives reconnects."""
        if self._closing:
            raise NotConnected(self.address, "the connection is closed")
        subscription = Subscription(self, subject, handler, queue)
        self._subscriptions.add(subscription)
        if not (self._client.opening or self._client.is_closed):  # else `_open` does it
            client = self._client
            number = await subscription.begin(client)
            if client is self._client:  # else `renew` has replaced it meanwhile, and numbered it anew
                subscription.number = number
        return subscription

    async def cancel(self, subscriptions: Iterable[Subscription]) -> None:
        """Drop these interests and return when everything sent to them has been handled."""
        dropped = list(subscriptions)
        self._subscriptions.difference_update(dropped)
        client = self._client
        try:  # where the connection is lost, nothing more is heard
            with contextlib.suppress(NotConnected, nats.errors.Error, OSError, RuntimeError):
                for subscription in dropped:
                    await client.unlisten(subscription.number)
                await self.flush()
        finally:
            for subscription in dropped:
                client.forget(subscription.number)

    async def ask(
        self, subject: str, payload: bytes, seconds: float, valid: Callable[[bytes], bool] = lambda _: True
    ) -> bytes:
        """Send one question and return the first valid answer. Raises NotPermitted if the server does not pass it."""
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
            with self.unanswered.waiting(subject, answer):
                self.send(subject, payload, reply)
                async with asyncio.timeout(seconds):
                    return await answer
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
            raise NotConnected(self.address, words(error)) from None

    async def wait_ready(self, seconds: float) -> bool:
        """Wait up to `seconds` until the connection can be used; says whether it can."""
        if not self.ready:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ready_event.wait()
        return self.ready

    def jetstream(self) -> JetStreamContext:
        """The library's own JetStream interface, for the modules of this package."""
        return self._client.jetstream(timeout=JETSTREAM_SECONDS)

    async def has_jetstream(self) -> bool:
        """Whether the server keeps streams and key-value stores."""
        try:
            await self.jetstream().account_info()
        except (nats.errors.Error, OSError, TimeoutError):
            return False
        return True

    async def move(self, avoid: Avoid | None = None) -> None:
        """Leave a server that is cut off from the others, if another can be reached; as `renew` does, but sooner."""
        here = self.server
        async with self._changing:
            await self._renew(avoid or (lambda server: server == here), LEAVE_SECONDS)

    async def renew(self, avoid: Avoid | None = None) -> None:
        """Go over to a connection made anew with the credentials as they are now, and lose nothing on the way.

        Servers to `avoid` are tried last. The old one listens until every server of the cluster has had time to learn
        of the new one. Raises NotConnected, and keeps the old one, if there can be no new one.
        """
        async with self._changing:
            await self._renew(avoid or self.avoid, MEET_SECONDS)

    async def _renew(self, avoid: Avoid, seconds: float) -> None:
        fresh, old = self._new_client(), self._client
        handover = Handover(old, fresh, lambda by, what: by is self._client or what in self._subscriptions)
        try:
            await self._connect(fresh, avoid)
            await handover.take_all(self._subscriptions, f"{self._inbox}.over", seconds)
            if not fresh.is_connected:
                raise nats.errors.ConnectionClosedError
        except BaseException as error:
            handover.end(old)
            await self._discard(fresh)
            raise self._said(error) from None
        if self._client is not old or self._closing:  # it was lost meanwhile, and built again
            await self._discard(fresh)
            return
        self._client = fresh
        self._set_ready(True)
        try:
            await handover.finish(handover.numbers.keys() - self._subscriptions, FINISH_SECONDS)
        finally:
            handover.end(fresh)
            self._dropped_before += old.dropped
            await self._discard(old)

    async def close(self) -> None:
        self._closing = True
        self._set_ready(False)
        await self._balancer.end()
        if self._renewing is not None:
            await self._renewing.end()
        if self._rebuild is not None:
            await end_task(self._rebuild)
        await self._client.close()

    def _new_client(self) -> GuardedClient:
        client = GuardedClient(lambda: self._on_lost(client), self._balancer.joined, self.unanswered)
        return client

    async def _open(self) -> None:
        client = self._client
        try:
            await self._connect(client, self.avoid)
            for subscription in list(self._subscriptions):
                subscription.number = await subscription.begin(client)
            await self.flush()
        except BaseException as error:
            await self._discard(client)
            raise self._said(error) from None
        self._set_ready(client.is_connected)

    def _said(self, error: BaseException) -> BaseException:
        """What to raise where connecting has failed: what the server said, if it is about that."""
        if isinstance(error, nats.errors.Error | OSError | TimeoutError):
            return NotConnected(self.address, self.last_error or words(error))
        return error

    async def _discard(self, client: GuardedClient) -> None:
        """Close a client that did not come up, or it would go on trying, and hear everything twice."""
        await client._close(GuardedClient.CLOSED, False)

    async def _connect(self, client: GuardedClient, avoid: Avoid) -> None:
        client.opening = True
        call = Call(
            self.url,
            self.name,
            self._inbox,
            lambda: self.credentials,
            partial(self._on_error, client),
            partial(self._on_reconnected, client),
            partial(self._on_closed, client),
            self._admission_seconds,
        )
        try:
            await call.dial(client, self._connect_seconds, avoid)
        finally:
            client.opening = False
        if not client.is_connected:  # the library can return unconnected when authentication is slow
            raise NotConnected(self.address, self.last_error or "the server did not accept the connection")
        self.unanswered.forget()

    def _set_ready(self, ready: bool) -> None:
        if ready == self.ready:
            return
        self.ready = ready
        if self._watchdog is not None:
            self._watchdog.cancel()
        if ready:
            self._ready_event.set()
            for action in self.on_ready:
                action()
        else:
            self._ready_event.clear()
            if not self._closing:
                loop = asyncio.get_running_loop()
                self._watchdog = loop.call_later(UNREADY_SECONDS, self._build_anew)

    async def _on_error(self, client: GuardedClient, error: Exception) -> None:
        self.last_error = words(error)
        self.unanswered.hear(self.last_error)
        _log.debug("bus error on %s: %s", self.address, self.last_error)
        if client.opening and self._admission_seconds and is_undecided(client, error):
            self.last_error = UNDECIDED
            return
        client.refused = is_refusal(error, self.url)
        if client.refused and client.opening:  # otherwise the library would try again for minutes
            client.refusals += 1
            client.refused = client.refusals >= len(servers(self.url))
            if client.refused:
                raise NotConnected(self.address, self.last_error)

    def _on_lost(self, client: GuardedClient) -> None:
        if client is self._client:
            self.unanswered.forget()
            self._set_ready(False)

    async def _on_reconnected(self, client: GuardedClient) -> None:
        if client is self._client and not client.opening:  # else `_open` says so when all is listened to
            self.reconnects += 1
            self._set_ready(client.is_connected)

    async def _on_closed(self, client: GuardedClient) -> None:
        """Begin again with a new client: the library gives up for good on some errors, such as expired credentials."""
        if client is self._client:
            self._build_anew()

    def _build_anew(self) -> None:
        if not self._closing and self._rebuild is None:
            self._rebuild = asyncio.create_task(self._build_again())

    async def _build_again(self) -> None:
        pause = REBUILD_SECONDS
        while True:
            old, self._client = self._client, self._new_client()
            self._dropped_before += old.dropped
            await self._discard(old)
            try:
                await self._open()
                break
            except NotConnected:
                pass
            except Exception:  # whatever the library stumbles over: it must not end for good
                _log.exception("the connection to %s could not be built anew", self.address)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, MOST_REBUILD_SECONDS)
        self._rebuild = None
        self.reconnects += 1

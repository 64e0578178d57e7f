"""nats-py's client, made safe against hostile messages and given a path without task switches.

What differs from the library's client (measured: docs/design/nats-client.md):
- what cannot be decoded is counted and dropped, where the library's read loop would end without a word;
- subjects may hold any byte that the server lets through, where the library's parser would disconnect;
- a handler may be called from the read loop itself, and a message written to the socket at once;
- the loss of the connection is told at once, and never waits for a frozen server to take what is buffered;
- a ping follows everything sent before it, and may be given up without harm to the connection;
- when no server accepts it, it tries again after pauses that grow and differ from client to client.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import ssl
import types
from collections.abc import Callable
from dataclasses import dataclass
from ssl import SSLContext
from time import monotonic
from typing import Any
from urllib.parse import ParseResult

from nats.aio.client import DEFAULT_BUFFER_SIZE, Client, Srv
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport
from nats.errors import ConnectionClosedError, NoServersError
from nats.protocol import command, parser

from bus.nats.permission_refusals import Unanswered

Handler = Callable[[str, str, bytes, bytes], None]
"""Called with subject, reply subject, payload and raw headers. It must be quick and must not block."""

NO_RESPONDERS = b"NATS/1.0 503"
CLOSE_SECONDS = 1.0
"""How long closing waits for the server to take what is still buffered."""

FIRST_PAUSE = 0.1
"""Longest pause, in seconds, after every server was tried once without success; doubled with each further round."""
MOST_PAUSE = 2.0
"""Longest pause between two rounds: after a restart thousands come back within such a time, and not all at once."""

_WORD = rb"[ \t]+([^ \t\n]+)"
_REPLY = rb"[ \t]+(([^ \t\n]+)[ \t]+)?"
_PATTERNS = {
    "MSG_RE": re.compile(rb"\AMSG" + _WORD + rb"[ \t]+(\d+)" + _REPLY + rb"(\d+)\r\n"),
    "HMSG_RE": re.compile(rb"\AHMSG" + _WORD + rb"[ \t]+(\d+)" + _REPLY + rb"(\d+)[ \t]+(\d+)\r\n"),
}


class Parser(parser.Parser):
    """The library's parser over patterns that split where the server splits: at spaces, tabs and line ends only."""

    parse = types.FunctionType(parser.Parser.parse.__code__, {**vars(parser), **_PATTERNS}, "parse", (b"",))


class Transport(TcpTransport):
    """The library's transport, made to end also where TLS does not."""

    async def connect_tls(
        self, uri: str | ParseResult, ssl_context: SSLContext, buffer_size: int, connect_timeout: int
    ) -> None:
        await super().connect_tls(uri, ssl_context, buffer_size, connect_timeout)
        # The library forgets to say so, and asyncio would warn whenever a server hangs up.
        self._io_writer._protocol._over_ssl = True  # type: ignore[union-attr]

    def write(self, payload: bytes) -> None:
        try:
            super().write(payload)  # type: ignore[no-untyped-call]
        except RuntimeError as error:  # uvloop's word for a closed socket would end the library's attempts
            raise ConnectionResetError(str(error)) from None

    async def wait_closed(self) -> None:
        """Return when the socket is closed. One whose handshake failed, or was cut off, may never say so.

        Several may wait for it. One that is cancelled would cancel what all of them wait for; so each has a task.
        """
        closing = asyncio.ensure_future(super().wait_closed())  # type: ignore[no-untyped-call]
        closing.add_done_callback(
            lambda task: task.cancelled() or task.exception()
        )  # if nobody waits any more
        await asyncio.wait([closing], timeout=CLOSE_SECONDS)
        if not closing.done():
            closing.cancel()
        elif not closing.cancelled():
            closing.result()


class Interest(Subscription):
    """A subscription without the library's queue of messages, which its handler does not need: there may be many."""

    _max_msgs = 0
    _message_iterator = None
    _pending_next_msgs_calls = None  # type: ignore[assignment]
    _received = 0
    _wait_for_msgs_task = None

    def __init__(self, number: int, subject: str, queue: str) -> None:
        self._id = number
        self._subject = subject
        self._queue = queue


@dataclass(frozen=True, slots=True)
class Node:
    """A NATS server, as it says of itself."""

    name: str
    version: str
    until: float | None
    """When the certificate that it has shown ends; None where links have none."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


def pause_before(attempt: int, servers: int) -> float:
    """Seconds to wait before an attempt to connect, counted from 0: none in the first round of all servers."""
    rounds = attempt // max(servers, 1)
    return random.uniform(0.0, min(FIRST_PAUSE * 2.0 ** min(rounds - 1, 10), MOST_PAUSE)) if rounds else 0.0


class GuardedClient(Client):
    """One NATS connection that no message can stop."""

    def __init__(
        self,
        on_lost: Callable[[], None],
        on_joined: Callable[[frozenset[str], int], None],
        unanswered: Unanswered | None = None,
    ) -> None:
        """`on_lost` is called as soon as the connection is lost or closed.

        `on_joined` is told which servers have joined the cluster, each as host and port, and how many there are now.
        """
        self._state = Client.DISCONNECTED
        self._attempts = 0
        self._on_lost = on_lost
        self._on_joined = on_joined
        super().__init__()
        self._ps = Parser(self)
        self._handlers: dict[int, Handler] = {}
        self.unanswered = unanswered or Unanswered()
        """What was asked over this connection, and waits for an answer."""
        self._heard = False
        self.dropped = 0
        """How many messages could not be decoded, or made their handler fail."""
        self.opening = False
        """Whether it is being connected for the first time. A connection may open two at once: to renew, to rebuild."""
        self.refused = False
        """Set by whoever sees that no server lets it in: then it closes, where the library would try for ever."""
        self.refusals = 0
        """How many servers have refused it. One that is cut off from the access control services refuses everybody."""
        self.dialed_at = 0.0
        """When it was last tried to reach a server."""
        self.undecided = False
        """Whether a server was there, and nobody told it whether to let us in."""
        self._ended = False
        self.peers = frozenset[str]()
        """The servers that the one connected to knows, itself too, each as host and port; none if it does not tell."""

    async def listen(self, subject: str, handler: Handler, queue: str = "") -> int:
        """Call the handler for each message on the subject, from the read loop; returns the subscription's number."""
        self._sid += 1
        sid: int = self._sid
        sub = Interest(sid, subject, queue)
        self._subs[sid] = sub
        self._handlers[sid] = handler
        await self._send_subscribe(sub)
        return sid

    async def unlisten(self, sid: int) -> None:
        """Drop the interest; what the server has already sent is still handled until the next `flush`."""
        if self._subs.pop(sid, None) is not None and self.is_connected:
            await self._send_unsubscribe(sid)

    def hear(self, sid: int, handler: Handler) -> None:
        """Call another handler for a subscription from now on."""
        if sid in self._handlers:
            self._handlers[sid] = handler

    def forget(self, sid: int) -> None:
        """Stop handling what still arrives for a subscription dropped before."""
        self._handlers.pop(sid, None)

    def send(self, subject: str, payload: bytes, reply: str, headers: bytes = b"") -> None:
        """Write a message to the socket now, after whatever is waiting. The caller has checked the connection."""
        if self._transport is None:  # it was lost a moment ago
            raise ConnectionResetError("connection closed")
        if headers:
            self._pending.append(command.hpub_cmd(subject, reply, headers, payload))
        else:
            self._pending.append(command.pub_cmd(subject, reply, payload))
        self._write_pending()

    async def request(self, subject: str, *more: Any, **options: Any) -> Any:
        """As the library's. Raises NotPermitted where the server says so: the library would wait in vain."""
        refused = asyncio.get_running_loop().create_future()
        asking = asyncio.ensure_future(super().request(subject, *more, **options))
        try:
            with self.unanswered.waiting(subject, refused):
                await asyncio.wait([asking, refused], return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else refused.result()
        finally:
            asking.cancel()
            refused.cancel()

    @property
    def clustered(self) -> bool:
        """Whether the server connected to is one of a cluster."""
        return bool(self._server_info.get("cluster"))

    @property
    def server_id(self) -> str:
        """What the server connected to is known by; another after each start."""
        return str(self._server_info.get("server_id", ""))

    @property
    def node(self) -> Node:
        """What the server connected to says of itself."""
        writer = None if self._transport is None else getattr(self._transport, "_io_writer", None)
        shown = None if writer is None else writer.get_extra_info("peercert")
        until = ssl.cert_time_to_seconds(shown["notAfter"]) if shown else None
        info = self._server_info
        return Node(str(info.get("server_name", "")), str(info.get("version", "")), until)

    async def finish(self, seconds: float) -> None:
        """Return when nothing that the library has asked is still unanswered, at the latest after `seconds`."""
        waiting = [future for future in self._resp_map.values() if not future.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=seconds)

    @property
    def _status(self) -> int:
        return self._state

    @_status.setter
    def _status(self, status: int) -> None:
        # The library calls back only when it has waited for the socket to close: too late for whoever sends.
        lost = self._state == Client.CONNECTED != status
        self._state = status
        if status == Client.CONNECTED:
            self._attempts = 0
        if lost:
            self._give_up_pings()
            self._on_lost()

    def _give_up_pings(self) -> None:
        """Tell whoever waits in `flush`: the library would let them wait until their time is over."""
        for pong in self._pongs:
            if not pong.done():
                pong.set_exception(ConnectionClosedError())
                pong.exception()  # not everyone who pings waits for the answer

    def _write_pending(self) -> None:
        assert self._transport is not None
        self._transport.writelines(self._pending)
        self._pending = []
        self._pending_data_size = 0

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        if future is None and self._heard:
            # What has arrived since the last time shows as much as an answer. The other direction is the server's
            # to watch: it pings too, and closes a connection on which nothing comes back.
            self._heard = False
            self._pings_outstanding = 1  # silence from here on is found out as soon as if one had been sent
            return
        # The library would write the ping before what waits in line, and its answer would prove nothing.
        self._write_pending()
        await super()._send_ping(future)

    async def _flush_pending(self, force_flush: bool = False) -> None:
        # One flush writes all that waits. The library would queue one for every subscription, and there may be many.
        flusher, due = self._flusher_task, self._flush_queue
        if due is None:  # the library would fail by an assertion if it was closed a moment ago
            raise ConnectionClosedError
        if force_flush or flusher is None or flusher.done() or due.empty():
            await super()._flush_pending(force_flush)

    async def _process_pong(self) -> None:
        # The library fails, and with it the read loop, if whoever sent the ping has stopped waiting.
        if self._pongs:
            pong = self._pongs.pop(0)
            if not pong.done():
                pong.set_result(True)
            self._pongs_received += 1
            self._pings_outstanding = 0

    async def _process_ping(self) -> None:
        self._heard = True
        await super()._process_ping()

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        self._heard = True
        handler = self._handlers.get(sid)
        try:
            if handler is None:
                await super()._process_msg(sid, subject, reply, data, headers)
            else:
                handler(subject.decode(), reply.decode(), data, headers or b"")
        except Exception:
            self.dropped += 1

    async def _select_next_server(self) -> None:
        if self.refused:
            self.options["max_reconnect_attempts"] = 0  # or `connect` would spin: it retries without a pause
            raise NoServersError
        await super()._select_next_server()

    async def _connect_to_server(self, s: Srv) -> None:
        await asyncio.sleep(pause_before(self._attempts, len(self._server_pool)))
        if self._ended:  # the library's wait for its own task may have swallowed the cancellation
            raise asyncio.CancelledError
        self._attempts += 1
        s.last_attempt = self.dialed_at = monotonic()
        transport = Transport()  # type: ignore[no-untyped-call]
        seconds = self.options["connect_timeout"]
        await transport.connect(s.uri, buffer_size=DEFAULT_BUFFER_SIZE, connect_timeout=seconds)
        self._transport = transport

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        await super()._process_info(info, initial_connection)
        before, self.peers = self.peers, frozenset(info.get("connect_urls") or ())
        if before and (joined := self.peers - before):
            self._on_joined(joined, len(self.peers))

    async def _read_loop(self) -> None:
        await super()._read_loop()
        # The library ends its loop on any error and says nothing: treat that as the lost connection it is.
        if self.is_connected:
            await self._process_op_err(ConnectionError("the read loop ended"))

    async def _attempt_reconnect(self) -> None:
        self._abort()
        # The library might try the server first that has just been found frozen, and wait for it once more.
        others = [server for server in self._server_pool if server is not self._current_server]
        random.shuffle(others)
        assert self._current_server is not None
        self._server_pool = [*others, self._current_server]
        await super()._attempt_reconnect()

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        self._ended = status == Client.CLOSED  # between two attempts to connect the library closes too
        if self._flush_queue is None:  # it never began to connect, and the library fails on closing that
            self._status = status
            return
        if self.is_connected:
            with contextlib.suppress(OSError, RuntimeError):  # the socket may have closed a moment ago
                self._write_pending()
        # What is left has nobody to go to, and the library would fail on the closed socket.
        self._pending, self._pending_data_size = [], 0
        aborting = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._abort)
        try:
            await super()._close(status, do_cbs)
        finally:
            aborting.cancel()

    def _abort(self) -> None:
        """Close the socket without waiting until the server has taken what is buffered: a frozen one never does."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

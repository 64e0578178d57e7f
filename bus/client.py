"""nats-py's client, made safe against hostile messages and given a path without task switches.

Three things differ from the library's client (measured: docs/design/nats-client.md):
- what cannot be decoded is counted and dropped, where the library's read loop would end without a word;
- subjects may hold any byte that the server lets through, where the library's parser would disconnect;
- a handler may be called from the read loop itself, and a message written to the socket at once.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable

from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.protocol import command, parser

Handler = Callable[[str, str, bytes, bytes], None]
"""Called with subject, reply subject, payload and raw headers. It must be quick and must not block."""

NO_RESPONDERS = b"NATS/1.0 503"

_PATTERNS = {
    "MSG_RE": re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)\r\n"),
    "HMSG_RE": re.compile(
        rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)[ \t]+(\d+)\r\n"
    ),
}


class Parser(parser.Parser):
    """The library's parser over patterns that split where the server splits: at spaces and tabs only."""

    parse = types.FunctionType(parser.Parser.parse.__code__, {**vars(parser), **_PATTERNS}, "parse", (b"",))


class GuardedClient(Client):
    """One NATS connection that no message can stop."""

    def __init__(self) -> None:
        super().__init__()
        self._ps = Parser(self)
        self._handlers: dict[int, Handler] = {}
        self.dropped = 0
        """How many messages could not be decoded, or made their handler fail."""

    async def listen(self, subject: str, handler: Handler, queue: str = "") -> int:
        """Call the handler for each message on the subject, from the read loop; returns the subscription's number."""
        self._sid += 1
        sid: int = self._sid
        sub = Subscription(self, sid, subject=subject, queue=queue)
        self._subs[sid] = sub
        self._handlers[sid] = handler
        await self._send_subscribe(sub)
        return sid

    async def unlisten(self, sid: int) -> None:
        """Drop the interest; what the server has already sent is still handled until the next `flush`."""
        if self._subs.pop(sid, None) is not None and self.is_connected:
            await self._send_unsubscribe(sid)

    def forget(self, sid: int) -> None:
        """Stop handling what still arrives for a subscription dropped before."""
        self._handlers.pop(sid, None)

    def send(self, subject: str, payload: bytes, reply: str) -> None:
        """Write a message to the socket now, after whatever is waiting. The caller has checked the connection."""
        self._pending.append(command.pub_cmd(subject, reply, payload))
        self._write_pending()

    async def flush(self, timeout: int = 5) -> None:
        """Return when the server has handled everything sent so far.

        The library writes its PING at once, before what waits to be written; then the PONG would prove nothing.
        """
        if self.is_connected:
            self._write_pending()
        await super().flush(timeout)

    def _write_pending(self) -> None:
        assert self._transport is not None
        self._transport.writelines(self._pending)
        self._pending = []
        self._pending_data_size = 0

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        handler = self._handlers.get(sid)
        try:
            if handler is None:
                await super()._process_msg(sid, subject, reply, data, headers)
            else:
                handler(subject.decode(), reply.decode(), data, headers or b"")
        except Exception:
            self.dropped += 1

    async def _read_loop(self) -> None:
        await super()._read_loop()
        # The library ends its loop on any error and says nothing: treat that as the lost connection it is.
        if self.is_connected:
            await self._process_op_err(ConnectionError("the read loop ended"))

"""The subscriptions of a connection, and its pending replies."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from bus.nats.client import NO_RESPONDERS, GuardedClient, Handler

if TYPE_CHECKING:
    from bus.nats.connection import Connection

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

    async def begin(self, client: GuardedClient) -> int:
        """Let a client listen; returns the number by which it knows this."""
        return await client.listen(self.subject, self.handler, self.queue)

    async def cancel(self) -> None:
        """Drop the interest and return when everything sent to it has been handled."""
        await self._connection.cancel([self])


class Replies:
    """Who waits for answers, by the subjects below `place` on which they come."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._expected: dict[str, ReplyHandler] = {}

    def expect(self, handler: ReplyHandler) -> str:
        """Wait for answers; returns the reply subject to send the question with. End it by `forget`."""
        # Whoever is asked learns this one, and must not guess the next: another may be answered there.
        reply = f"{self.place}.{secrets.token_hex(8)}"
        self._expected[reply] = handler
        return reply

    def forget(self, reply: str) -> None:
        """Wait for no further answers: a late one costs one dictionary look-up."""
        self._expected.pop(reply, None)

    def hear(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        handler = self._expected.get(subject)
        if handler is not None:
            handler(payload, headers.startswith(NO_RESPONDERS))

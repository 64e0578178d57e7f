"""Interests in what is said on a connection, and in answers to what was asked there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bus.nats.client import GuardedClient, Handler

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

"""Faults on purpose, for experiments: a connection that loses what a fault model says is lost."""

from __future__ import annotations

from collections.abc import Callable

from bus.nats.client import Handler
from bus.nats.connection import Connection
from bus.nats.subscription import Subscription

Loses = Callable[[bytes], bool]
"""Called with the payload of a message that arrived: whether to drop it."""


class FaultyConnection(Connection):
    """A connection whose subscribers do not hear every message: to the sender they are silent, as if broken."""

    def __init__(self, url: str, loses: Loses, *, name: str = "authfabric") -> None:
        super().__init__(url, name=name)
        self._loses = loses
        self.lost = 0
        """How many messages were lost on purpose."""

    async def listen(self, subject: str, handler: Handler, queue: str = "") -> Subscription:
        def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
            if self._loses(payload):
                self.lost += 1
            else:
                handler(subject, reply, payload, headers)

        return await super().listen(subject, hear, queue)

"""Subscribing an SDP to signed decisions: it says which topics it wants, and learns from what arrives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from time import time
from typing import Self

from authz.authority import Deciders
from bus.errors import NotConnected
from bus.nats import Connection, Subscription
from bus.runtime import in_background
from bus.wire import WISH_SECONDS, Topic, TopicRequest, pack, subjects, unpack_shared_decisions
from sdp_cache.point.learning import Learner, Refusal
from sdp_cache.point.secondary_point import SecondaryPoint

_log = logging.getLogger("authfabric.sdp")


class Learning:
    """`async with Learning(bus, point, deciders, domain, ["prefix:/sales", "roles:clerk"])`."""

    def __init__(
        self,
        connection: Connection,
        point: SecondaryPoint,
        deciders: Deciders,
        domain: str,
        topics: Sequence[str],
    ) -> None:
        """Raises InvalidTopic."""
        self._connection = connection
        self._domain = domain
        self._topics = [Topic.parse(text, domain) for text in topics]
        self._wish = pack(TopicRequest(list(topics)))
        self._stack = contextlib.AsyncExitStack()
        self.learner = Learner(point, deciders, domain, self._topics)

    async def __aenter__(self) -> Self:
        subscriptions = [
            await self._connection.listen(subject, lambda s, r, data, h: self._hear(data))
            for subject in {subjects.lessons(topic) for topic in self._topics}
        ]
        self._stack.push_async_callback(self._forget, subscriptions)
        in_background(self._stack, self._keep_wishing)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _hear(self, payload: bytes) -> None:
        refused = self.learner.refused
        before = refused[Refusal.FORGED]
        self.learner.hear(unpack_shared_decisions(payload), time())
        if not before and refused[Refusal.FORGED]:
            _log.warning("a forged lesson was heard in `%s`; more of them are only counted", self._domain)

    async def _keep_wishing(self) -> None:
        while True:
            with contextlib.suppress(NotConnected):
                self._connection.send(subjects.wishes(self._domain), self._wish)
            await asyncio.sleep(WISH_SECONDS)

    async def _forget(self, subscriptions: list[Subscription]) -> None:
        with contextlib.suppress(NotConnected):
            await self._connection.cancel(subscriptions)

"""Going over from one connection to another, perhaps at another server, without loss.

The servers of a cluster learn one after the other who listens where. If the old connection fell silent as soon as the
new one's own server knows of it, what is said at a third server in between would reach neither. So both listen until
the two servers carry messages to each other, and for a while longer, and a message that both hear is handled once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Set
from time import monotonic

import nats.errors

from bus.nats.client import GuardedClient, Handler
from bus.nats.subscription import Subscription

MEET_SECONDS = 5.0
"""Maximum seconds to wait until two servers of a cluster forward messages to each other."""
LEAVE_SECONDS = 1.0
"""The same when the old server is left because it seems to be cut off."""
BOTH_SECONDS = 2.0
"""Seconds for which both connections listen after that, until every server knows of the new one."""
TWIN_SECONDS = 1.0
"""Two equal messages, one heard by each, are one message if they come within this time.

It is shorter than the time that both listen: of two equal messages that were sent, one heard by the old connection only
and one by the new only, neither is taken for the other.
"""
MOST_ROUNDS = 3
"""Maximum rounds of waiting for subscriptions that were added meanwhile."""
_LOOK_SECONDS = 0.05

Message = tuple[Subscription, str, str, bytes, bytes]
"""For which interest, subject, reply subject, payload and headers."""


class Twins:
    """Recognizes what both connections have heard."""

    def __init__(self) -> None:
        self._single: defaultdict[tuple[bool, Message], deque[float]] = defaultdict(deque)
        self._order: deque[tuple[float, tuple[bool, Message]]] = deque()

    def is_new(self, message: Message, *, fresh: bool, now: float) -> bool:
        """Whether a message heard by the fresh connection, or by the old, was not heard by the other before."""
        while self._order and now - self._order[0][0] > TWIN_SECONDS:
            then, key = self._order.popleft()
            times = self._single.get(key)
            if times and times[0] == then:
                times.popleft()
            if not times:
                self._single.pop(key, None)
        if heard := self._single.get((not fresh, message)):
            heard.popleft()
            return False
        self._single[fresh, message].append(now)
        self._order.append((now, (fresh, message)))
        return True


class Handover:
    """From an old client to a fresh one, which hears nothing yet."""

    def __init__(
        self, old: GuardedClient, fresh: GuardedClient, hears: Callable[[GuardedClient, Subscription], bool]
    ) -> None:
        """`hears` says whether what arrives for an interest by one of them is still to be handled."""
        self._old, self._fresh = old, fresh
        self._hears = hears
        self._twins = Twins()
        self._apart = False
        self.numbers: dict[Subscription, int] = {}
        """By which the fresh one knows the interests it has taken over."""

    async def take_all(self, subscriptions: Set[Subscription], place: str, seconds: float) -> None:
        """Let the fresh one listen to all there are, those that are added meanwhile too, and `settle`."""
        rounds = 0
        while missing := subscriptions - self.numbers.keys():
            for subscription in missing:
                await self.take(subscription)
            await self._fresh.flush()
            if (rounds := rounds + 1) <= MOST_ROUNDS:
                await self.settle(place, seconds)

    async def take(self, subscription: Subscription) -> None:
        """Let the fresh one listen too."""
        self.numbers[subscription] = 0
        handler = subscription.handler
        if not subscription.queue:  # of a queue only one of the two gets a message
            self._old.hear(subscription.number, self._once(subscription, fresh=False))
            handler = self._once(subscription, fresh=True)
        self.numbers[subscription] = await self._fresh.listen(
            subscription.subject, handler, subscription.queue
        )

    async def settle(self, place: str, seconds: float) -> None:
        """Return when what is sent anywhere in the cluster reaches the fresh one. Below `place` it sends to itself.

        If the servers carry nothing to each other for `seconds`, the old one has nothing more to tell.
        """
        old, fresh = self._old, self._fresh
        if old.server_id == fresh.server_id or not (old.clustered and fresh.clustered):
            return
        if old.peers and not old.peers & fresh.peers:  # the old one's server is cut off from the others
            return
        arrived = set[GuardedClient]()
        marks = {client: f"{place}.{number}" for number, client in enumerate((old, fresh))}
        heard = [
            (client, await client.listen(mark, lambda *_, client=client: arrived.add(client)))
            for client, mark in marks.items()
        ]
        with contextlib.suppress(
            OSError, RuntimeError, TimeoutError
        ):  # the first two if one is lost just now
            async with asyncio.timeout(seconds):
                while self._alive and not (len(arrived) == len(marks) and old.peers <= fresh.peers):
                    old.send(marks[fresh], b"", "")
                    fresh.send(marks[old], b"", "")
                    await asyncio.sleep(_LOOK_SECONDS)
        for client, number in heard:
            await client.unlisten(number)
            client.forget(number)
        if len(arrived) < len(marks):
            return
        self._apart = True
        until = monotonic() + BOTH_SECONDS
        while self._alive and monotonic() < until:  # noqa: ASYNC110 - the loss of either ends it
            await asyncio.sleep(_LOOK_SECONDS)

    async def finish(self, gone: Iterable[Subscription], seconds: float) -> None:
        """Go over to the fresh one, without the interests that are gone, and hear what the old one has still to say."""
        before = [subscription.number for subscription in self.numbers]
        for subscription, number in self.numbers.items():
            subscription.number = number
        for subscription in gone:
            self._fresh.hear(subscription.number, lambda *_: None)
        with contextlib.suppress(nats.errors.Error, OSError, RuntimeError, TimeoutError):
            for subscription in gone:
                await self._fresh.unlisten(subscription.number)
                self._fresh.forget(subscription.number)
            for number in before:
                await self._old.unlisten(number)
            await self._old.flush(timeout=int(seconds))
            await self._old.finish(seconds)
            await self._fresh.flush()
            if self._apart:  # what the old one has heard may still be on its way to the fresh one
                await asyncio.sleep(TWIN_SECONDS)

    def end(self, kept: GuardedClient) -> None:
        """Let the one that is kept handle everything it hears."""
        for subscription, number in self.numbers.items():
            kept.hear(number if kept is self._fresh else subscription.number, subscription.handler)

    @property
    def _alive(self) -> bool:
        return self._old.is_connected and self._fresh.is_connected

    def _once(self, subscription: Subscription, *, fresh: bool) -> Handler:
        client, handler = self._fresh if fresh else self._old, subscription.handler

        def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
            message = subscription, subject, reply, payload, headers
            if self._hears(client, subscription) and self._twins.is_new(
                message, fresh=fresh, now=monotonic()
            ):
                handler(subject, reply, payload, headers)

        return hear

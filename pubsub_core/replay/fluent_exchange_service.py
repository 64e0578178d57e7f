"""Shared fluents that began before a broker could hear it: what the others know of them is asked for.

Each broker that comes into reach is asked once, while it is, about each fluent that both follow by the same definition.
A broker is believed about a fluent, and told about it, if it is trusted with every type that begins or ends it: it
could tell as much by events. Invariant: what another broker knew when it answered is known here, and what happens later
there is heard as it happens, since it is asked when the stream is read for it. Until all have answered a fluent is in
doubt.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from math import inf
from typing import TypeAlias

from pubsub_core.broker import Broker
from pubsub_core.events import WINDOW
from pubsub_core.history import MarksFound, MarksWanted
from pubsub_core.replay.fluent_uncertainty import SETTLE_SECONDS, Doubts
from pubsub_core.replay.page_service import Pages, PastUnknown
from pubsub_core.rules import Arguments, Common, Mark

AGAIN_SECONDS = 10.0
"""Seconds before a broker that could not answer is asked again."""

_Key: TypeAlias = tuple[str, str, Common]
"""A broker, a fluent, and what it is."""

_log = logging.getLogger("authfabric.rules")


class FluentExchange:
    """Asks other brokers about shared fluents, and answers them."""

    def __init__(self, broker: Broker, pages: Pages, doubts: Doubts) -> None:
        self._broker, self._setting = broker, broker.setting
        self._pages = pages
        self._doubts = doubts
        broker.observer.on_define.append(self._define)
        self._asked: dict[_Key, asyncio.Task[None]] = {}
        self._greeted = False

    def _define(self) -> None:
        self._doubts.begin()
        if self._greeted:
            asyncio.get_running_loop().call_soon(self.tick)

    def tick(self) -> None:
        """Ask whoever is there and was not asked; this broker has made itself known to others before."""
        self._ask_all()
        self._review()
        if not self._greeted:
            self._greeted = True
            asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._review)

    def _review(self) -> None:
        self._doubts.review(asyncio.get_running_loop().time())

    def _ask_all(self) -> None:
        peers, common = self._broker.peers, self._broker.observer.common
        for key in [each for each in self._asked if each[0] not in peers or common.get(each[1]) != each[2]]:
            self._asked.pop(key).cancel()
        for peer in peers.values():
            for name, shared in common.items():
                key = peer.name, name, shared
                if key not in self._asked and peer.secret and shared.types and shared.types <= peer.carries:
                    self._asked[key] = asyncio.get_running_loop().create_task(self._ask(key))

    async def _ask(self, key: _Key) -> None:
        broker, name, shared = key
        try:
            await self._ask_pages(broker, name, shared)
        except PastUnknown as error:
            _log.info("what `%s` knows of the fluent `%s` is not known here: %s", broker, name, error)
            self._answered(key)
            await asyncio.sleep(AGAIN_SECONDS)
            self._asked.pop(key, None)
        else:
            self._answered(key)

    def _answered(self, key: _Key) -> None:
        self._doubts.answer(*key)
        self._review()

    async def _ask_pages(self, broker: str, name: str, shared: Common) -> None:
        holding: dict[Arguments, bool] = {}
        since, beyond = -inf, b""
        await self._broker.interest.settled()  # what happens from then on is heard by its event
        while True:
            wanted = MarksWanted(b"", min(shared.types), name, shared.definition, since, beyond)
            found = await self._pages.ask_marks(broker, wanted)
            self._learn(name, found, holding)
            if found.after is None or not (found.after, found.beyond) > (since, beyond):
                break
            since, beyond = found.after, found.beyond
        start = self._setting.rules.context.fluents.since
        for arguments in (each for each, holds in holding.items() if holds):
            self._broker.observer.learn(Mark(name, arguments, start, True))

    def _learn(self, name: str, found: MarksFound, holding: dict[Arguments, bool]) -> None:
        """Note what is told; of times before anything is remembered here, put down only what held at their end."""
        context, now = self._setting.rules.context, self._setting.now()
        count = context.defined.get(name)
        for arguments, at, begins in found.marks:
            if len(arguments) != count or not 0.0 <= at <= now + WINDOW:
                continue  # no event can have said so: it is of such a time, also where it comes from its publisher
            if at < context.fluents.since:
                holding[arguments] = begins
            else:
                self._broker.observer.learn(Mark(name, arguments, min(at, now), begins))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For the length of the block."""
        try:
            yield
        finally:
            for task in self._asked.values():
                task.cancel()

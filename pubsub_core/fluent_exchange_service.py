"""Shared fluents that began before a broker could hear it: what the others know of them is asked for.

Each broker that comes into reach is asked once, while it is, about each fluent that both follow by the same definition.
A broker is believed about a fluent, and told about it, if it is trusted with every type that begins or ends it: it
could tell as much by events. Invariant: what another broker knew when it answered is known here, and what happens later
there is heard as it happens, since it answers when it knows what is wanted here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from math import inf, isnan, nextafter
from typing import TypeAlias

from pubsub_core.broker import Broker
from pubsub_core.event import encode
from pubsub_core.past import MarksFound, MarksWanted
from pubsub_core.past_service import Pages, PastUnknown
from pubsub_core.rules.fluents import Arguments
from pubsub_core.rules.observer import Common, Mark
from pubsub_core.session import Peer

PAGE = 1024
MOST_BYTES = 256 * 1024
"""So large a page may be: twice that is no message any more."""
AGAIN_SECONDS = 10.0
"""After so long a broker that could not tell is asked again."""

_Key: TypeAlias = tuple[str, str, bytes]
"""A broker, a fluent, and the definition of it."""

_log = logging.getLogger("authfabric.rules")


class FluentExchange:
    """Asks other brokers about shared fluents, and answers them."""

    def __init__(self, broker: Broker, pages: Pages) -> None:
        self._broker = broker
        self._pages = pages
        pages.tell_marks = self.tell
        self._asked: dict[_Key, asyncio.Task[None]] = {}

    def tick(self) -> None:
        """Ask whoever is there and was not asked."""
        peers, common = self._broker.peers, self._broker.observer.common
        for key in [key for key in self._asked if key[0] not in peers]:
            self._asked.pop(key).cancel()
        for peer in peers.values():
            for name, shared in common.items():
                key = peer.name, name, shared.definition
                if key not in self._asked and peer.secret and shared.types and shared.types <= peer.carries:
                    self._asked[key] = asyncio.get_running_loop().create_task(self._ask(key, shared))

    async def _ask(self, key: _Key, shared: Common) -> None:
        broker, name, definition = key
        holding: dict[Arguments, bool] = {}
        since: float | None = -inf
        try:
            while since is not None:
                wants = self._broker.switchboard.version
                wanted = MarksWanted(b"", min(shared.types), name, definition, since, wants)
                found = await self._pages.ask_marks(broker, wanted)
                self._learn(name, found, holding)
                since = found.after
        except PastUnknown as error:
            _log.info("what `%s` knows of the fluent `%s` is not known here: %s", broker, name, error)
            await asyncio.sleep(AGAIN_SECONDS)
            self._asked.pop(key, None)
            return
        start = self._broker.setting.rules.context.fluents.since
        for arguments in (each for each, holds in holding.items() if holds):
            self._broker.observer.learn(Mark(name, arguments, start, True))

    def _learn(self, name: str, found: MarksFound, holding: dict[Arguments, bool]) -> None:
        """Note what is told; of times before anything is remembered here, put down only what held at their end."""
        context, now = self._broker.setting.rules.context, self._broker.setting.now()
        count = context.defined.get(name)
        for arguments, at, begins in found.marks:
            if len(arguments) != count or isnan(at):
                continue
            if at < context.fluents.since:
                holding[arguments] = begins
            else:
                self._broker.observer.learn(Mark(name, arguments, min(at, now), begins))

    def tell(self, peer: Peer, wanted: MarksWanted) -> MarksFound:
        """What is known here, for a broker that asks."""
        broker, vault = self._broker, self._broker.setting.vault
        shared = broker.observer.common.get(wanted.fluent)
        if shared is None or shared.definition != wanted.definition:
            return MarksFound(wanted.id, problem="follows no such fluent")
        if not shared.types <= peer.carries:
            return MarksFound(wanted.id, problem="does not trust us with the events behind it")
        if any(each in vault.sealed and not vault.equal(each, peer.groups) for each in shared.types):
            return MarksFound(wanted.id, problem="tells only those who have the same keys")
        if wanted.wants > peer.version or not all(broker.ways.reaches(peer, each) for each in shared.types):
            return MarksFound(wanted.id, later=True)
        moments = broker.setting.rules.context.fluents.moments(wanted.fluent, wanted.since)
        for most in (PAGE, 32, 1):  # names may be long
            found = _page(wanted.id, moments, most)
            if len(encode(found)) <= MOST_BYTES:
                return found
        return MarksFound(wanted.id, problem="knows more of one moment than goes into a message")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For the length of the block."""
        try:
            yield
        finally:
            for task in self._asked.values():
                task.cancel()


def _page(id_: bytes, moments: list[tuple[float, Arguments, bool]], most: int) -> MarksFound:
    """The first of them, so many or a few more: those of one moment are not parted."""
    page = moments[:most]
    if len(moments) > most:
        page += [each for each in moments[most:] if each[0] == page[-1][0]]
    after = nextafter(page[-1][0], inf) if len(page) < len(moments) else None
    return MarksFound(id_, [(arguments, at, begins) for at, arguments, begins in page], after)

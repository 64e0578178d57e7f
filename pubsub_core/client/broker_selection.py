"""Which of the brokers that it knows a client goes on at, when it starts and when one is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from typing import NamedTuple

from authz import PublicKey
from authz.errors import InvalidSignature
from bus.errors import BusError
from bus.nats import Connection
from bus.wire import broker as broker_subject
from pubsub_core.client.calls import CALL_SECONDS
from pubsub_core.errors import NoBroker
from pubsub_core.keys import CannotOpen, Channel, Offer
from pubsub_core.messages import BROKER_KEY

PATIENCE_SECONDS = 0.5
"""How long a client that knows several brokers waits for one of them."""


class Met(NamedTuple):
    """A broker that has said by which key it is to be spoken to."""

    key: PublicKey | None
    channel: Channel
    session: str
    broker: str = ""


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers that a client may connect to."""

    names: tuple[str, ...] = ()
    group: str = ""
    """In place of names: that of a group."""

    @classmethod
    def of(cls, broker: str, brokers: Collection[str], group: str) -> Brokers:
        """Raises ValueError unless exactly one of them is given."""
        if isinstance(brokers, str):
            raise ValueError("`brokers` must be a list of names: one broker is given by `broker`")
        if sum(map(bool, (broker, brokers, group))) != 1:
            raise ValueError("give one of `broker`, `brokers` and `group`")
        return cls(tuple(dict.fromkeys((broker,) if broker else brokers)), group)

    def __str__(self) -> str:
        return self.group or ", ".join(self.names)

    @property
    def many(self) -> bool:
        """Whether there may be another in the place of one that is lost."""
        return bool(self.group) or len(self.names) > 1

    async def meet(
        self, bus: Connection, domain: str, session: str, current: str = "", lost: str = ""
    ) -> Met:
        """Draw a channel: with the broker that a client has, if it answers, unless it was lost; else with another.

        Raises InvalidSignature, CannotOpen, NoResponders, ReplyTimeout.
        """
        if not self.many:
            return await meet(bus, domain, self.names[0], session)
        if current and current != lost:
            try:
                return await meet(bus, domain, current, session, seconds=PATIENCE_SECONDS)
            except BusError:
                lost = current
        if self.group:
            return await meet(bus, domain, self.group, session, True, PATIENCE_SECONDS)
        others = [name for name in self.names if name != lost] or list(self.names)
        return await _first([meet(bus, domain, name, session, seconds=PATIENCE_SECONDS) for name in others])

    def missing(self, domain: str) -> NoBroker:
        return NoBroker(str(self), domain)


async def meet(
    bus: Connection,
    domain: str,
    broker: str,
    session: str,
    group: bool = False,
    seconds: float = CALL_SECONDS,
) -> Met:
    """Draw a channel with a broker, or with whichever of a group answers first.

    Raises InvalidSignature, CannotOpen, NoResponders, ReplyTimeout.
    """
    offer = Offer()
    answer = await bus.ask(broker_subject(domain, broker, "key"), offer.public, seconds)
    word, key = BROKER_KEY.read(answer)
    if word.client != offer.public or not (group or word.broker == broker):
        raise InvalidSignature
    return Met(key, offer.accept(word.exchange), session, word.broker)


FORESEEN = (BusError, InvalidSignature, CannotOpen)
"""How an attempt to meet a broker may fail."""


async def _first(attempts: Collection[Coroutine[object, object, Met]]) -> Met:
    """What the first of several brings that succeeds; otherwise raises what the last has raised."""
    tasks = {asyncio.ensure_future(each) for each in attempts}
    problems: list[BaseException] = []
    try:
        while tasks:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            problems = [
                error for each in done if (error := each.exception()) is not None
            ]  # none is left unseen
            if len(problems) < len(done):
                return next(each.result() for each in done if each.exception() is None)
            if unforeseen := [each for each in problems if not isinstance(each, FORESEEN)]:
                raise unforeseen[0]
    finally:
        for task in tasks:
            task.cancel()
    raise problems[-1]

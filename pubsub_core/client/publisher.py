"""Publishing: events on their way to a broker, in bundles, signed, sent again until they are taken."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from dataclasses import dataclass
from itertools import pairwise
from time import time
from typing import TYPE_CHECKING

from bus.errors import NotConnected
from bus.wire import broker as broker_subject
from bus.wire import pack
from pubsub_core.errors import EventError, InvalidEvent, KeysAwaited, NotKept, SessionLost
from pubsub_core.events import (
    MAX_EVENT_BYTES,
    NONCE_BYTES,
    TOO_LARGE,
    WINDOW,
    Event,
    Proof,
    Shape,
    all_digests,
    as_array,
    encode,
)
from pubsub_core.keys import CannotOpen
from pubsub_core.messages import Bundle, Taken, Unadvertise, unpack_taken
from pubsub_core.types import EventType

if TYPE_CHECKING:
    from pubsub_core.client.session import ClientSession

RESEND_SECONDS = 1.0
MAX_BUNDLE = 512
MAX_BUNDLE_BYTES = 256 * 1024
BUNDLE_ID_BYTES = 16
MAX_IN_FLIGHT = 16
"""The publisher's window: how many bundles may be unacknowledged before it has to wait."""
EAGER = 2
"""Bundles in flight from which on events are batched: signatures and messages cost by the bundle."""
SIGNED_SECONDS = WINDOW / 2
"""Maximum age of a signature when a bundle is sent: half the window that the broker accepts."""
UNTAKEN = f"was not taken: {{}}; the clocks of client and broker may differ by more than {WINDOW:g} s"
"""The error for events whose signatures the broker rejects."""

_log = logging.getLogger("authfabric.events")


class Publisher:
    """Publishes events of a type that was advertised, and of its sub-types."""

    def __init__(self, client: ClientSession, outgoing: Outgoing, definition: EventType) -> None:
        self.type = definition
        self._client = client
        self._outgoing = outgoing
        self._shape = Shape(client.catalogue.attributes(definition.version))

    @property
    def interested(self) -> bool:
        """Whether anybody wants such events, as far as the broker knows."""
        return self._client.interested.get(self.type.id, False)

    @property
    def refused(self) -> int:
        """How many events of this client its broker has not taken, whatever their type."""
        return self._outgoing.refused

    async def wanted(self) -> None:
        """Return when somebody wants such events: before that, publishing is for nobody."""
        while not self.interested:
            self._client.interest_changed.clear()
            await self._client.interest_changed.wait()

    async def publish(self, **values: object) -> None:
        """Publish an event. Returns when it is on its way. Raises InvalidEvent, naming the attribute.

        Raises KeysAwaited, once, if the broker has refused earlier events for want of keys; this one is not sent.
        """
        self._outgoing.check_keys()
        if self._outgoing.crowded:
            await self._outgoing.room()
        self._outgoing.add(self.type, self._shape.by_id(values))

    def publish_as(self, number: int, at: float, /, **values: object) -> None:
        """Publish an event under a number and a time of one's own, at once: the same again is the same event.

        What is so published between two calls of `flush` goes together. Raises InvalidEvent, naming the attribute.
        """
        self._outgoing.add(self.type, self._shape.by_id(values), number, at)

    async def flush(self) -> None:
        """Return when the broker has taken everything. Raises InvalidEvent or NotKept for the first that it did not."""
        await self._outgoing.flush()

    async def unadvertise(self) -> None:
        await self.flush()
        self._client.publishers.pop(self.type.name, None)
        await self._client.call(Unadvertise(self.type.name))


@dataclass(slots=True)
class _Flight:
    """A bundle that the broker has not taken yet."""

    events: list[bytes]
    runs: list[int]
    """How many of them of one type follow each other; empty if they are all of one."""
    payload: bytes
    signed: float
    sent: float
    id: bytes


class Outgoing:
    """Events on their way to the broker: in bundles, signed, sent again until they are taken."""

    def __init__(self, client: ClientSession) -> None:
        self._client = client
        self._key = client.identity.public.raw
        self._filling: list[bytes] = []
        self._filling_type = ""
        self._turns: list[int] = []
        """Where among them another type begins."""
        self._filling_bytes = 0
        self._in_flight: dict[int, _Flight] = {}
        self._number = 0
        self._sequence = secrets.randbits(40) << 20  # sequences of two sessions of one key do not meet
        self._changed = asyncio.Event()
        self._problem: EventError | None = None
        """The first thing that the broker has refused and nobody was told of."""
        self._told = ""
        """What was last said of such in the log, and nothing was taken since."""
        self.refused = 0
        """Events that the broker has refused so far."""
        self._ended = ""
        self._reply = client.bus.expect(self._on_taken)

    def add(
        self,
        definition: EventType,
        values: dict[str, object],
        number: int | None = None,
        at: float | None = None,
    ) -> None:
        """Have an event sent, by default with the next number. Raises InvalidEvent if it is too large."""
        if number is None:
            self._sequence += 1
        sequence = self._sequence if number is None else number
        moment = time() if at is None else at
        event = Event(definition.id, definition.version, self._key, moment, sequence, values)
        data = encode(event)
        if len(data) > MAX_EVENT_BYTES:
            raise InvalidEvent("event", TOO_LARGE.format(len(data)))
        if self._filling and self._filling_bytes + len(data) > MAX_BUNDLE_BYTES:
            self.hurry()
        if definition.id != self._filling_type:
            self._turns.append(len(self._filling))
            self._filling_type = definition.id
        self._filling.append(data)
        self._filling_bytes += len(data)
        if len(self._filling) == 1:
            asyncio.get_running_loop().call_soon(self._send_early)
        elif len(self._filling) == MAX_BUNDLE:
            self.hurry()

    @property
    def crowded(self) -> bool:
        """Whether no other event may be sent now."""
        return len(self._in_flight) >= MAX_IN_FLIGHT or bool(self._ended)

    async def room(self) -> None:
        """Wait until another event may be sent."""
        while len(self._in_flight) >= MAX_IN_FLIGHT and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        self._check()

    def hurry(self) -> None:
        """Send what there is, in company or not."""
        if self._filling:
            events, self._filling, self._filling_bytes, self._filling_type = self._filling, [], 0, ""
            turns, self._turns = [*self._turns, len(events)], []
            runs = [end - start for start, end in pairwise(turns)]
            self._bundle(events, runs if len(runs) > 1 else [])

    async def flush(self) -> None:
        self.hurry()
        while self._in_flight and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        self._raise_problem()
        self._check()

    def check_keys(self) -> None:
        """Raise KeysAwaited if that is why the broker has refused something, and nobody was told of it yet."""
        if isinstance(self._problem, KeysAwaited):
            self._raise_problem()

    def _raise_problem(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def end(self, problem: str) -> None:
        self._ended = problem
        self._changed.set()

    def resend(self) -> None:
        """Send everything again that was not taken: the broker knows what it has."""
        for number in sorted(self._in_flight):
            self._transmit(number)

    def resend_old(self) -> None:
        """The same for what has waited for long."""
        now = time()
        if any(now - each.sent > RESEND_SECONDS for each in self._in_flight.values()):
            self.resend()

    def restart(self, number: int = 1) -> None:
        """Count what was not taken anew, from this number on; in a new session, from 1."""
        waiting = [self._in_flight.pop(each) for each in sorted(self._in_flight) if each >= number]
        self._number = number - 1
        for each in waiting:
            self._bundle(each.events, each.runs, each.id)

    def _check(self) -> None:
        if self._ended:
            raise SessionLost(self._ended)

    def _send_early(self) -> None:
        """Send what there is, unless enough is on its way for more to come together first."""
        if len(self._in_flight) < EAGER:
            self.hurry()

    def _bundle(self, events: list[bytes], runs: list[int], id_: bytes = b"") -> None:
        """Send events together, under the id that they have had before."""
        self._number += 1
        id_ = id_ or secrets.token_bytes(BUNDLE_ID_BYTES)
        self._in_flight[self._number] = self._sign(self._number, events, runs, id_)
        self._transmit(self._number)

    def _sign(self, number: int, events: list[bytes], runs: list[int], id_: bytes) -> _Flight:
        client, now = self._client, time()
        proof = Proof(client.credential, now, secrets.token_bytes(NONCE_BYTES))
        signed = proof.sign(client.identity, all_digests(events, runs))
        bundle = Bundle.encoded(client.session, number, signed, as_array(events), id_, runs)
        return _Flight(events, runs, pack(bundle), now, now, id_)

    def _transmit(self, number: int) -> None:
        """Send a bundle; while a session is begun or taken up, later: all that waits is sent when that is done."""
        flight, now, client = self._in_flight[number], time(), self._client
        if not client.joined:
            return
        if not abs(now - flight.signed) <= SIGNED_SECONDS:
            flight = self._in_flight[number] = self._sign(number, flight.events, flight.runs, flight.id)
        flight.sent = now
        subject = broker_subject(client.domain, client.broker, "publish")
        with contextlib.suppress(NotConnected):  # it is sent again when the connection is back
            client.bus.send(subject, client.channel.seal(flight.payload), self._reply)

    def _on_taken(self, payload: bytes, nobody: bool) -> None:
        if nobody:
            return
        try:
            taken = unpack_taken(self._client.channel.open(payload))
        except CannotOpen:
            return  # it is sent again
        if taken.problem:
            self._not_taken(taken)
            return
        if not taken.refused:
            self._told = ""
        if self._in_flight.pop(taken.number, None) is not None and taken.refused:
            _, attribute, problem = taken.refused[0]
            error = KeysAwaited if taken.keyless else InvalidEvent
            self._refuse(error(attribute, problem), len(taken.refused))
        self._settled()

    def _not_taken(self, taken: Taken) -> None:
        if taken.expected:
            for number in sorted(self._in_flight):
                if number >= taken.expected:
                    self._transmit(number)
        elif taken.number in self._in_flight and (taken.unkept or "session" not in taken.problem):
            flight = self._in_flight[taken.number]
            if taken.unkept:
                del self._in_flight[taken.number]
                self._refuse(NotKept(taken.problem), len(flight.events))
            elif taken.signed != flight.signed:
                return  # it was signed anew since
            elif abs(time() - flight.signed) > SIGNED_SECONDS:
                self._transmit(taken.number)  # it waited too long at a broker that did not answer
                return
            else:
                del self._in_flight[taken.number]
                self._refuse(InvalidEvent("bundle", UNTAKEN.format(taken.problem)), len(flight.events))
                self.restart(taken.number)  # the broker has not counted it
            self._settled()

    def _refuse(self, problem: EventError, events: int) -> None:
        """Remember the first problem for whoever publishes next, or flushes."""
        self.refused += events
        if self._problem is None:
            self._problem = problem
            if str(problem) != self._told:  # not for every event of which the same is to be said
                self._told = str(problem)
                counted = f"{events} events were" if events > 1 else "an event was"
                _log.warning("%s not published: %s", counted, problem)

    def _settled(self) -> None:
        """A bundle is no longer on its way."""
        self._send_early()
        self._changed.set()

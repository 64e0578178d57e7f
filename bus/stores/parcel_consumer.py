"""One broker's reading of the stream of parcels, by a pull consumer of its own.

It acknowledges all up to a number, and goes on there after a restart. Where a delivery got lost on the way, the
consumer is replaced by one that begins after the last message that arrived. Invariant: a reader is given parcels by
growing numbers, and all of the subjects wanted that the stream still had when their turn came.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Collection
from typing import Protocol

import msgspec

from bus.errors import BusError
from bus.nats import Connection
from bus.stores.consumer_keeper import ConsumerInfo, ConsumerKeeper, DirectKeeper, consumer_names
from bus.stores.jetstream_api import CONSUMER, StreamInfo, stream_info
from bus.stores.parcel_delivery import Arrived, read_delivery
from bus.wire import subjects

BATCH = 256
"""Maximum parcels in flight to a broker."""
EXPIRES_SECONDS = 60.0
"""How long a pull request stands."""
HEARTBEAT_SECONDS = 10.0
"""Seconds between two heartbeats of the server for a pull request."""
COALESCE_SECONDS = 0.05
"""Seconds for which acknowledgements are gathered into one message."""
PAUSE_SECONDS = 0.25
"""Pause before a consumer that was lost is made anew."""

_log = logging.getLogger("authfabric.bus")


class Reader(Protocol):
    """Takes what a consumer reads."""

    def arrive(self, arrived: Arrived) -> bool:
        """Take a parcel; false if none can be taken for the moment, until the consumer is told to go on."""
        ...

    def lose(self, count: int) -> None:
        """The stream discarded `count` messages, of any subject, before they were read."""
        ...

    def apply(self, version: int) -> None:
        """The server selects by what was wanted in this version."""
        ...


class Consumer:
    """One broker's reading of the stream of parcels."""

    def __init__(
        self, connection: Connection, keeper: ConsumerKeeper, stream: str, owner: str, reader: Reader
    ) -> None:
        """`owner` is the place below which its consumers are named; `keeper` makes them."""
        self._connection = connection
        self._keeper = keeper
        self._look = DirectKeeper(connection)
        self._stream_name = stream
        self._names = consumer_names(owner)
        self._reader = reader
        self._turn = 0
        """Which of the two names is used."""
        self._wanted: frozenset[str] = frozenset()
        self._version = 0
        self._fresh: set[str] = set()
        """Those that are wanted since the server was last told: what was published before is not for anybody here."""
        self._begins: dict[str, int] = {}
        """The last number before each was wanted."""
        self._former: set[str] = set()
        """Those that were wanted before others that cover them."""
        self._asked: frozenset[str] = frozenset()
        """What the server was last told to select by."""
        self._applied: frozenset[str] = frozenset()
        """The subjects by which the server selects now: those that were asked for, unless some are not allowed."""
        self.before: frozenset[str] = frozenset()
        """Those by which it selected before this broker started."""
        self._last = 0
        """The number of the last message that arrived."""
        self._delivered = 0
        """How many messages this consumer has delivered, by its own count."""
        self._replies: deque[tuple[int, str]] = deque()
        """Where each message that arrived is acknowledged."""
        self._floor = 0
        """Everything up to this number was dealt with."""
        self._started = False
        self._acking: asyncio.TimerHandle | None = None
        self._requests: dict[str, int] = {}
        """How many messages each pull request still brings."""
        self._request = 0
        self._queue: deque[Arrived] = deque()
        self._paused = False
        self._broken = True
        self._heard = 0.0
        self._news = asyncio.Event()
        self._after: int | None = None
        """Where the consumer was told to begin, which cannot be changed."""

    def want(self, wanted: Collection[str], version: int) -> None:
        """Have the server send what is published on these subjects from now on, and nothing else."""
        if self._version == version and frozenset(wanted) == self._wanted:
            return
        before, self._wanted, self._version = self._wanted, frozenset(wanted), version
        for each in self._wanted - before:
            wider = next((cover for cover in subjects.of_all_domains(each) if cover in before), None)
            if wider is None or wider in self._fresh:
                self._fresh.add(each)
            else:  # it was wanted already, with more
                self._begins[each] = self._begins.get(wider, 0)
        self._former |= before - self._wanted - self._fresh
        self._news.set()

    def ask_again(self) -> None:
        """More may be allowed than before."""
        if self._started and (refused := _uncovered(self._wanted, self._applied)):
            self._fresh |= refused
            self._news.set()

    @property
    def paused(self) -> bool:
        """Whether what is published stays in the stream for the moment."""
        return self._paused

    def go_on(self) -> None:
        """Hand on again, first what has arrived."""
        self._paused = False
        while self._queue and not self._paused:
            self._hand_on(self._queue.popleft())
        self._news.set()

    def _hand_on(self, arrived: Arrived) -> None:
        selecting = [
            each
            for each in subjects.of_all_domains(arrived.subject)
            if each in self._wanted or each in self._former
        ]
        begun = (each not in self._fresh and arrived.number > self._begins.get(each, 0) for each in selecting)
        if selecting and not any(begun):
            return
        if not self._reader.arrive(arrived):
            self._paused = True
            self._queue.appendleft(arrived)

    def acknowledge(self, number: int) -> None:
        """Everything up to this number was dealt with."""
        if number > self._floor:
            self._floor = number
            if self._acking is None:
                loop = asyncio.get_running_loop()
                self._acking = loop.call_later(COALESCE_SECONDS, self._acknowledge)

    def _acknowledge(self) -> None:
        self._acking = None
        reply = ""
        while self._replies and self._replies[0][0] <= self._floor:
            _, reply = self._replies.popleft()
        if reply:
            with contextlib.suppress(BusError):
                self._connection.send(reply, b"+ACK")

    async def run(self) -> None:
        """Read until cancelled."""
        place = f"{self._connection.own_place}.parcels"
        self._connection.on_ready.append(self._break)
        subscription = await self._connection.listen(f"{place}.*", self._on_message)
        loop = asyncio.get_running_loop()
        try:
            while True:
                version = self._version
                try:
                    if self._broken:
                        await self._resume()
                        self._heard = loop.time()
                    elif self._fresh or self._wanted != self._asked:
                        await self._update()
                    self._reader.apply(version)
                    self._pull(place)
                except BusError as error:
                    _log.info("events are not read for the moment: %s", error)
                    self._broken = True
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                self._news.clear()
                with contextlib.suppress(TimeoutError):
                    if not self._broken and self._version == version:
                        async with asyncio.timeout(HEARTBEAT_SECONDS):
                            await self._news.wait()
                silent = loop.time() - self._heard > 2.5 * HEARTBEAT_SECONDS
                self._broken |= silent and bool(self._requests)
        finally:
            self._connection.on_ready.remove(self._break)
            if self._acking is not None:
                self._acking.cancel()
                self._acknowledge()
            with contextlib.suppress(BusError):
                await subscription.cancel()

    def _break(self) -> None:
        """Deliveries may have been lost: go on with a consumer that begins after the last that arrived."""
        self._broken = True
        self._news.set()

    async def _resume(self) -> None:
        """Make a consumer that begins after the last message that arrived, or was acknowledged."""
        found = [await self._info(name) for name in self._names]
        floors = [each.ack_floor.stream_seq if each is not None else -1 for each in found]
        newest = max(range(2), key=floors.__getitem__)
        known = found[newest]
        after: int | None = self._floor if self._unacknowledged else self._last
        if not self._started:
            after = floors[newest] if known is not None else None
        if not self._started and known is not None:
            self.before = known.filters
            self._wanted |= self.before  # clients that were there may come again
        owed = set[str]()
        if (
            not self._started
        ):  # of types that were read before, all counts that came meanwhile, on whichever route
            types = {subjects.parcel_place(each) for each in self.before}
            owed = {each for each in self._fresh if subjects.parcel_place(each) in types}
        wanted, fresh = self._wanted, frozenset(self._fresh - owed)
        state = (await self._stream()).state
        if after is not None and not state.first_seq - 1 <= after <= state.last_seq:
            # Discarded by the stream's limits; or the stream is another than before, and its numbers mean nothing.
            self._reader.lose(abs(state.first_seq - 1 - after))
            after = self._last = min(max(after, state.first_seq - 1), state.last_seq)
        self._after = after
        self._turn = 1 - newest if known is not None else 0
        if found[self._turn] is not None:
            await self._keeper.delete(self._stream_name, self._names[self._turn])
        self._applied = await self._make("create", wanted)
        if known is not None:
            await self._keeper.delete(self._stream_name, self._names[1 - self._turn])
        self._floor = state.last_seq if after is None else after
        self._last = max(self._last, self._floor)
        self._started = True
        self._begin(fresh, state.last_seq)
        self._fresh -= owed
        self._delivered = 0
        self._requests.clear()
        self._replies.clear()
        self._broken = False

    async def _update(self) -> None:
        """Have the server select by what is wanted now; what is fresh begins with what is published from now on."""
        wanted, fresh = self._wanted, frozenset(self._fresh)
        last = (await self._stream()).state.last_seq if fresh else 0
        info = await self._info(self._names[self._turn])
        if info is None:
            self._broken = True
            return
        idle = not info.num_pending and info.delivered.consumer_seq == self._delivered
        if fresh and idle and not self._unacknowledged:
            # Nothing is on its way: begin anew, or the server would look through all that was published before.
            self._last = max(self._last, last)
            self._broken = True
        else:
            self._applied = await self._make("update", wanted)
        self._begin(fresh, last)
        if self._broken:
            await self._resume()

    def _begin(self, fresh: frozenset[str], last: int) -> None:
        """What is published after this number counts of what is wanted now and was not before."""
        self._begins |= dict.fromkeys(fresh, last)
        self._fresh -= fresh
        covers = {
            each: [cover for cover in subjects.of_all_domains(each) if cover in self._wanted]
            for each in self._former
        }
        self._former = {
            each
            for each, wider in covers.items()
            if any(self._begins.get(cover, 0) > self._last for cover in wider)
        }
        known = self._wanted | self._former
        self._begins = {each: at for each, at in self._begins.items() if each in known}

    @property
    def _unacknowledged(self) -> bool:
        """Whether something has come that may have to come again after a restart."""
        return bool(self._replies) and self._replies[-1][0] > self._floor

    async def _stream(self) -> StreamInfo:
        return await stream_info(self._connection, self._stream_name, again=True)

    def _pull(self, place: str) -> None:
        """Keep enough requests standing."""
        standing = sum(self._requests.values())
        if self._paused or len(self._queue) + standing > BATCH // 2:
            return
        self._request += 1
        reply, count = f"{place}.{self._request}", BATCH - standing
        request = {
            "batch": count,
            "expires": int(EXPIRES_SECONDS * 1e9),
            "idle_heartbeat": int(HEARTBEAT_SECONDS * 1e9),
        }
        name = self._names[self._turn]
        self._connection.send(
            f"{CONSUMER}.MSG.NEXT.{self._stream_name}.{name}", msgspec.json.encode(request), reply
        )
        self._requests[reply] = count

    def _on_message(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        self._heard = asyncio.get_running_loop().time()
        delivery = read_delivery(subject, reply, payload, headers)
        if delivery is None:
            self._on_status(subject, headers)
            return
        name, delivered, arrived = delivery
        number = arrived.number
        if self._broken or name != self._names[self._turn] or delivered <= self._delivered:
            return  # of a consumer that was replaced, or heard twice while a connection is renewed
        if delivered != self._delivered + 1:
            self._break()
            return
        self._delivered = delivered
        self._replies.append((number, reply))
        self._count()
        if number <= self._last:
            return  # it has come by the consumer before, and was not acknowledged
        self._last = number
        if self._paused:
            self._queue.append(arrived)
        else:
            self._hand_on(arrived)

    def _count(self) -> None:
        """A message has come by the oldest request."""
        for each in self._requests:
            self._requests[each] -= 1
            if not self._requests[each]:
                del self._requests[each]
            break
        if sum(self._requests.values()) <= BATCH // 2:
            self._news.set()

    def _on_status(self, subject: str, headers: bytes) -> None:
        """A request has ended, or still stands."""
        status = headers[9:12]
        if status == b"100":
            return
        self._requests.pop(subject, None)
        if status not in (b"404", b"408"):
            self._broken = True
        self._news.set()

    async def _info(self, name: str) -> ConsumerInfo | None:
        return await self._look.info(self._stream_name, name)

    async def _make(self, action: str, wanted: frozenset[str]) -> frozenset[str]:
        """Have the consumer whose turn it is select by these subjects; returns by which it does."""
        name = self._names[self._turn]
        widest = wanted - _covered(wanted)  # the server takes no two that overlap
        info = await self._keeper.put(action, self._stream_name, name, widest, self._after)
        self._asked = wanted
        return info.filters


def _covered(filters: frozenset[str]) -> frozenset[str]:
    """Those that select nothing but what another of them does."""
    return frozenset(
        each
        for each in filters
        if any(cover in filters for cover in subjects.of_all_domains(each) if cover != each)
    )


def _uncovered(filters: frozenset[str], by: frozenset[str]) -> frozenset[str]:
    """Those that select something that none of the others does."""
    return frozenset(
        each for each in filters if not any(cover in by for cover in subjects.of_all_domains(each))
    )

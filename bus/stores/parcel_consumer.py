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
from nats.js import api

from bus.errors import BusError, StoreUnavailable
from bus.nats import Connection
from bus.stores.parcel_delivery import Arrived, read_delivery
from bus.stores.release_store import within
from bus.wire import subjects

BATCH = 256
"""The most parcels that are on their way to a broker."""
EXPIRES_SECONDS = 60.0
"""How long a pull request stands."""
HEARTBEAT_SECONDS = 10.0
"""How often the server says that a pull request stands."""
COALESCE_SECONDS = 0.05
"""How long acknowledgements wait for company."""
ACK_WAIT_SECONDS = 3600.0
"""Seconds after which the server would redeliver by itself: long, as a consumer that lost something is replaced."""
MAX_ACK_PENDING = 16_384
"""The most parcels that may wait for keys, or for acknowledgements to be sent."""
ANSWER_SECONDS = 5.0
"""How long the server may take to answer what is asked about a consumer."""
PAUSE_SECONDS = 0.25
"""Pause before a consumer that was lost is made anew."""
_NOWHERE = subjects.parcel("", "")
"""Matches no parcel: a consumer without a filter would get all of them."""
_API = "$JS.API.CONSUMER"
_NO_CONSUMER = 10014

_log = logging.getLogger("authfabric.bus")


class _Error(msgspec.Struct, frozen=True):
    err_code: int = 0
    description: str = ""


class _Place(msgspec.Struct, frozen=True):
    consumer_seq: int = 0
    stream_seq: int = 0


class _Config(msgspec.Struct, frozen=True):
    filter_subjects: list[str] = []


class _Info(msgspec.Struct, frozen=True):
    error: _Error | None = None
    config: _Config = _Config()
    delivered: _Place = _Place()
    ack_floor: _Place = _Place()
    num_pending: int = 0


_decode_info = msgspec.json.Decoder(_Info).decode


def consumer_names(owner: str) -> tuple[str, str]:
    """The consumers of whoever has this place: two, so that one can take the place of the other."""
    return f"{owner}-0", f"{owner}-1"


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

    def __init__(self, connection: Connection, owner: str, reader: Reader) -> None:
        """`owner` is the place below which its consumers are named."""
        self._connection = connection
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
        self._applied: frozenset[str] = frozenset()
        """The subjects by which the server selects now."""
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
        self._start: dict[str, object] = {}
        """Where the consumer was told to begin, which cannot be changed."""

    def want(self, wanted: Collection[str], version: int) -> None:
        """Have the server send what is published on these subjects from now on, and nothing else."""
        if self._version != version or frozenset(wanted) != self._wanted:
            self._fresh |= set(wanted) - self._wanted
            self._wanted, self._version = frozenset(wanted), version
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
        wanted = subjects.of_all_domains(arrived.subject)
        if wanted in self._fresh or arrived.number <= self._begins.get(wanted, 0):
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
                    elif self._fresh or self._wanted != self._applied:
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
            self.before = frozenset(known.config.filter_subjects) - {_NOWHERE}
            self._wanted |= self.before  # clients that were there may come again
        wanted, fresh = self._wanted, frozenset(self._fresh) - self.before
        state = (await self._stream()).state
        if after is not None and not state.first_seq - 1 <= after <= state.last_seq:
            # Discarded by the stream's limits; or the stream is another than before, and its numbers mean nothing.
            self._reader.lose(abs(state.first_seq - 1 - after))
            after = self._last = min(max(after, state.first_seq - 1), state.last_seq)
        start: dict[str, object] = {"deliver_policy": "new"}
        if after is not None:
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": after + 1}
        self._turn = 1 - newest if known is not None else 0
        if found[self._turn] is not None:
            await self._call("DELETE", self._names[self._turn], b"")
        await self._make(self._names[self._turn], start, wanted)
        if known is not None:
            await self._call("DELETE", self._names[1 - self._turn], b"")
        self._floor = state.last_seq if after is None else after
        self._last = max(self._last, self._floor)
        self._started = True
        self._applied = wanted
        self._begin(fresh, state.last_seq)
        self._fresh -= self.before
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
            await self._make(self._names[self._turn], {}, wanted)
            self._applied = wanted
        self._begin(fresh, last)
        if self._broken:
            await self._resume()

    def _begin(self, fresh: frozenset[str], last: int) -> None:
        """What is published after this number counts of what is wanted now and was not before."""
        self._begins = {each: at for each, at in self._begins.items() if each in self._wanted}
        self._begins |= dict.fromkeys(fresh, last)
        self._fresh -= fresh

    @property
    def _unacknowledged(self) -> bool:
        """Whether something has come that may have to come again after a restart."""
        return bool(self._replies) and self._replies[-1][0] > self._floor

    async def _stream(self) -> api.StreamInfo:
        return await within(self._connection.jetstream().stream_info(subjects.PARCELS))

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
            f"{_API}.MSG.NEXT.{subjects.PARCELS}.{name}", msgspec.json.encode(request), reply
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

    async def _info(self, name: str) -> _Info | None:
        """How a consumer stands; None if there is none, which is not for a server without a leader to say."""
        info = await self._call("INFO", name, b"")
        if info.error is None:
            return info
        if info.error.err_code == _NO_CONSUMER:
            return None
        raise StoreUnavailable(info.error.description)

    async def _make(self, name: str, start: dict[str, object], wanted: frozenset[str]) -> None:
        config = {
            "durable_name": name,
            "name": name,
            "filter_subjects": sorted(wanted) or [_NOWHERE],
            "ack_policy": "all",
            "ack_wait": int(ACK_WAIT_SECONDS * 1e9),
            "max_ack_pending": MAX_ACK_PENDING,
            **(start or self._start),
        }
        self._start = start or self._start
        action = "create" if start else "update"
        request = {"stream_name": subjects.PARCELS, "config": config, "action": action}
        info = await self._call("CREATE", name, msgspec.json.encode(request))
        if info.error is not None:
            raise StoreUnavailable(info.error.description)

    async def _call(self, what: str, name: str, request: bytes) -> _Info:
        subject = f"{_API}.{what}.{subjects.PARCELS}.{name}"
        try:
            return _decode_info(await self._connection.ask(subject, request, ANSWER_SECONDS))
        except msgspec.DecodeError as error:
            raise StoreUnavailable(str(error)) from None

"""The streams between brokers: parcels of events, and signed records of which the newest of each are kept.

A publisher's message counts when the stream has acknowledged it; it is published again until then, under one
`Nats-Msg-Id`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from math import inf

import msgspec
from nats.js import api
from nats.js.errors import BadRequestError, NotFoundError

from bus.errors import BadMessage, BusError, StoreFull, StoreUnavailable
from bus.nats import Connection
from bus.stores.parcel_delivery import SENDER_HEADER
from bus.stores.record_store import writer
from bus.stores.release_store import DIFFERENT_CONFIGURATION, within
from bus.stores.stream_reader import read_stream
from bus.wire import subjects

MAX_RECORD_BYTES = 256 * 1024**2
"""The most bytes of records that are kept."""
MAX_RECORD_SIZE = 512 * 1024
"""The longest record."""
MAX_REPLICAS = 5
MIN_AGE_SECONDS = 60.0
"""The shortest time for which parcels are kept."""
MIN_BYTES = 16 * 1024**2
"""The least room for parcels."""
DUPLICATE_SECONDS = 600.0
"""For how long the stream knows a parcel that is published again."""
ACK_SECONDS = 5.0
"""The longest that a publisher waits for the stream before it publishes again."""
FIRST_ACK_SECONDS = 0.5
"""How long it waits the first time, doubled with each: what was sent to a leader that has died is never answered."""
PAUSE_SECONDS = 0.25
"""Pause before that, and before a consumer that was lost is made anew."""
_SHARES = (1, 4, 16, 64)
_CLASS_NAME = re.compile(r"[a-z][a-z0-9]{0,31}")
_NO_ACK = "what the server answered is no acknowledgement"

_log = logging.getLogger("authfabric.bus")


class InvalidStorage(BusError):
    """A storage class that there cannot be: `problem` says why."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the storage class `{name}` {problem}")
        self.name = name
        self.problem = problem


class _Error(msgspec.Struct, frozen=True):
    err_code: int = 0
    description: str = ""


class _PubAck(msgspec.Struct, frozen=True):
    error: _Error | None = None
    seq: int = 0
    duplicate: bool = False


_decode_ack = msgspec.json.Decoder(_PubAck).decode


@dataclass(frozen=True, slots=True)
class StorageClass:
    """How the parcels of types are kept: owners of types name one in their definitions."""

    name: str
    memory: bool = False
    """Whether they are kept in memory only: what was not read is gone when the servers end."""
    replicas: int = 0
    """How many servers keep each; 0 for three where there are as many, one otherwise."""
    max_age: float = 24 * 3600.0
    """Seconds for which parcels are kept for brokers that are away."""
    max_bytes: int = 8 * 1024**3
    """The most bytes of parcels that are kept, where disk or memory allow it."""

    def __post_init__(self) -> None:
        if not _CLASS_NAME.fullmatch(self.name):
            raise InvalidStorage(self.name, "must have a name of up to 32 small letters and digits")
        if not 0 <= self.replicas <= MAX_REPLICAS:
            raise InvalidStorage(
                self.name, f"must have 1 to {MAX_REPLICAS} replicas, or 0 for the usual number"
            )
        if not MIN_AGE_SECONDS <= self.max_age < inf or self.max_bytes < MIN_BYTES:
            problem = f"must keep parcels for {MIN_AGE_SECONDS:g} s at least, and {MIN_BYTES:,} bytes"
            raise InvalidStorage(self.name, problem)

    @property
    def stream(self) -> str:
        return subjects.parcel_stream(self.name)

    def config(self, clustered: bool) -> api.StreamConfig:
        return api.StreamConfig(
            self.stream,
            subjects=[subjects.parcels(None, self.name)],
            max_age=self.max_age,
            max_bytes=self.max_bytes,
            duplicate_window=min(DUPLICATE_SECONDS, self.max_age),
            discard=api.DiscardPolicy.OLD,
            storage=api.StorageType.MEMORY if self.memory else api.StorageType.FILE,
            num_replicas=self.replicas or (3 if clustered else 1),
        )


STORAGE = (
    StorageClass(subjects.FILE),
    StorageClass("memory", memory=True, max_age=3600.0, max_bytes=1024**3),
)
"""The storage classes that there are everywhere."""


async def open_carriage(connection: Connection, storage: Iterable[StorageClass] = STORAGE) -> None:
    """Make the streams between brokers, unless they are there. Raises StoreUnavailable."""
    records = api.StreamConfig(
        subjects.BROKERS,
        subjects=[f"{subjects.broker_record(None, '*', '>')}"],
        max_msgs_per_subject=1,
        max_bytes=MAX_RECORD_BYTES,
        max_msg_size=MAX_RECORD_SIZE,
        discard=api.DiscardPolicy.NEW,
        storage=api.StorageType.FILE,
        num_replicas=3 if connection.clustered else 1,
    )
    for config in (*(each.config(connection.clustered) for each in storage), records):
        config.deny_delete = True
        config.allow_rollup_hdrs = False
        await _make(connection, config)


async def _make(connection: Connection, config: api.StreamConfig) -> None:
    """Make a stream as large as it should be, or as the disk allows."""
    js = connection.jetstream()
    with contextlib.suppress(NotFoundError):  # members may look for it, and not make it
        await _adapt(connection, (await within(js.stream_info(config.name or ""))).config, config)
        return
    whole = config.max_bytes or 0
    for share in _SHARES:
        config.max_bytes = whole // share
        try:
            await within(js.add_stream(config))
        except StoreFull:
            if share == _SHARES[-1]:
                raise
        except BadRequestError as error:  # somebody else has made it a moment ago
            if error.err_code != DIFFERENT_CONFIGURATION:
                raise StoreUnavailable(str(error)) from None
            return
        else:
            return


async def _adapt(connection: Connection, found: api.StreamConfig, wanted: api.StreamConfig) -> None:
    """Have a stream that is there take in what it should, and keep it for so long; its size and copies stay."""
    if (found.subjects, found.max_age or 0) == (wanted.subjects, wanted.max_age or 0):
        return
    found.subjects, found.max_age = wanted.subjects, wanted.max_age
    found.duplicate_window = wanted.duplicate_window
    with contextlib.suppress(StoreUnavailable, BadRequestError):  # whoever may, does
        await within(connection.jetstream().update_stream(found))


async def read_records(connection: Connection) -> AsyncIterator[tuple[str, bytes]]:
    """The records of all brokers that are kept, each with its subject. Raises StoreUnavailable."""
    every = subjects.broker_record(None, "*", ">")
    async with aclosing(read_stream(connection, subjects.BROKERS, every)) as messages:
        async for message in messages:
            yield message.subject, message.data


async def put_record(connection: Connection, domain: str, what: str, data: bytes) -> None:
    """Publish a record below one's own place, and return when it is kept. Raises StoreUnavailable."""
    await acknowledged_number(connection, subjects.broker_record(domain, writer(connection), what), data)


async def acknowledged_number(connection: Connection, subject: str, data: bytes) -> int:
    """Publish something, and return its number when a stream has it. Raises StoreUnavailable."""
    try:
        answer = await connection.ask(subject, data, ACK_SECONDS)
        problem, _ = _answer(answer)
    except BusError as error:
        raise StoreUnavailable(str(error)) from None
    if problem:
        raise StoreUnavailable(problem)
    return _decode_ack(answer).seq


async def purge_records(connection: Connection, owner: str) -> None:
    """Take out all records below a place. Raises StoreUnavailable."""
    below = subjects.broker_record(None, owner, ">")
    await within(connection.jetstream().purge_stream(subjects.BROKERS, subject=below))


class ParcelPublisher:
    """Publishes parcels until the stream has them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._problem = ""
        self._pending: dict[str, asyncio.TimerHandle] = {}
        self._ended = False

    def publish(
        self,
        subject: str,
        id_: str,
        make: Callable[[], bytes],
        done: Callable[[bool], None],
        attempt: int = 0,
    ) -> None:
        """Publish what `make` gives, again and again, until it is acknowledged; then call back.

        It is told whether the stream had it before: from an earlier life, and not by an attempt whose acknowledgement
        was lost.
        """
        if self._ended:
            return
        loop, connection = asyncio.get_running_loop(), self._connection

        def take(data: bytes, nobody: bool) -> None:
            if reply not in self._pending:
                return
            problem, known = ("there is no stream for events", False) if nobody else _answer(data)
            settle()
            if problem:
                retry(problem)
                return
            if self._problem:
                self._problem = ""
                _log.warning("events are carried again")
            done(known and not attempt)

        def settle() -> None:
            connection.forget(reply)
            self._pending.pop(reply).cancel()

        def retry(problem: str, pause: float = PAUSE_SECONDS) -> None:
            if problem != self._problem and connection.ready:
                self._problem = problem
                _log.warning("events are not carried for the moment: %s", problem)
            loop.call_later(pause, self.publish, subject, id_, make, done, attempt + 1)

        def give_up() -> None:
            settle()
            retry(f"no answer within {wait:g} s", pause=0.0)

        wait = min(ACK_SECONDS, FIRST_ACK_SECONDS * 2 ** min(attempt, 10))
        reply = connection.expect(take)
        self._pending[reply] = loop.call_later(wait, give_up)
        try:
            connection.send(subject, make(), reply, _headers(subject, id_))
        except (BusError, BadMessage) as error:
            settle()
            retry(str(error))

    def end(self) -> None:
        """Publish nothing any more."""
        self._ended = True
        for reply, timer in self._pending.items():
            timer.cancel()
            self._connection.forget(reply)
        self._pending.clear()


def _headers(subject: str, id_: str) -> bytes:
    """An id is the sender's place and a word. By the word the stream knows what is published again, by whomever."""
    stream = subjects.parcel_stream(subjects.parcel_place(subject).storage)
    sender, _, word = id_.rpartition(".")
    return (
        f"NATS/1.0\r\nNats-Expected-Stream: {stream}\r\n"
        f"Nats-Msg-Id: {word}\r\n{SENDER_HEADER}: {sender}\r\n\r\n"
    ).encode()


def _answer(data: bytes) -> tuple[str, bool]:
    """Why the stream has not taken a message, nothing if it has; and whether it had it before."""
    try:
        ack = _decode_ack(data)
    except msgspec.DecodeError:
        return _NO_ACK, False
    if ack.error is not None:
        return ack.error.description or "the stream has refused", False
    return "" if ack.seq else _NO_ACK, ack.duplicate

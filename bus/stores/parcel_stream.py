"""The streams between brokers: parcels of events, and signed records of which the newest of each are kept."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from math import inf

from nats.js import api
from nats.js.errors import BadRequestError, NotFoundError

from bus.errors import BusError, StoreFull, StoreUnavailable
from bus.nats import Connection
from bus.stores.parcel_publisher import acknowledged_number
from bus.stores.record_store import writer
from bus.stores.release_store import DIFFERENT_CONFIGURATION, within
from bus.stores.stream_reader import read_stream
from bus.wire import subjects

MAX_RECORD_BYTES = 256 * 1024**2
"""Maximum bytes of the stream of records."""
MAX_RECORD_SIZE = 512 * 1024
"""Maximum bytes of a record."""
MAX_REPLICAS = 5
MIN_AGE_SECONDS = 60.0
"""Minimum seconds for which parcels are kept."""
MIN_BYTES = 16 * 1024**2
"""Minimum bytes of a stream of parcels."""
DUPLICATE_SECONDS = 600.0
"""Seconds within which the stream recognizes a parcel that is published again."""
_SHARES = (1, 4, 16, 64)
_CLASS_NAME = re.compile(r"[a-z][a-z0-9]{0,31}")


class InvalidStorage(BusError):
    """A storage class that there cannot be: `problem` says why."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the storage class `{name}` {problem}")
        self.name = name
        self.problem = problem


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


async def purge_records(connection: Connection, owner: str) -> None:
    """Take out all records below a place. Raises StoreUnavailable."""
    below = subjects.broker_record(None, owner, ">")
    await within(connection.jetstream().purge_stream(subjects.BROKERS, subject=below))

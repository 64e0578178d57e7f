"""Records that are written once and read by many: a key-value bucket, and word of each new record.

Like the store of releases it is read entry by entry from the stream's leader, and whoever reads verifies: the store
is trusted with nothing but keeping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nats.js import api
from nats.js.errors import BadRequestError, NotFoundError
from nats.js.kv import KeyValue

from bus.connection import Connection, Subscription
from bus.errors import BusError, StoreUnavailable
from bus.store import DIFFERENT_CONFIGURATION, WrongLast, within
from bus.subjects import recorded


class RecordExists(BusError):
    """Another record stands under this name, and records are never overwritten."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is another record under `{name}` already")
        self.name = name


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands in the store; without data if it was taken out."""

    number: int
    name: str
    data: bytes


class RecordStore:
    """One bucket of records. Their names are tokens joined by dots."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        self._connection = connection
        self._bucket = bucket

    async def put(self, name: str, data: bytes) -> None:
        """Write a record. Raises RecordExists if there is another; StoreUnavailable, as all of these do."""
        bucket = await self._open()
        try:
            await within(bucket.create(name, data))
        except WrongLast:
            found = [each for each in await self.since(0) if each.name == name]
            if not found or found[-1].data != data:
                raise RecordExists(name) from None

    async def remove(self, name: str) -> None:
        """Take a record out."""
        await within((await self._open()).delete(name))

    async def since(self, number: int) -> list[Record]:
        """The records written after this number, oldest first; each name once, as it stands now."""
        found: list[Record] = []
        prefix = f"$KV.{self._bucket}."
        js = self._connection.jetstream()
        while True:
            reading = js.get_msg(f"KV_{self._bucket}", seq=number + 1, subject=f"{prefix}>", next=True)
            try:
                message = await within(reading)
            except NotFoundError:
                return found
            number = message.seq or 0
            name = (message.subject or "").removeprefix(prefix)
            gone = "KV-Operation" in (message.headers or {})
            found.append(Record(number, name, b"" if gone else message.data or b""))

    async def listen(self, on_news: Callable[[], None]) -> Subscription:
        """Call back whenever there may be a new record."""
        return await self._connection.listen(f"{recorded(self._bucket)}.>", lambda *_: on_news())

    async def _open(self) -> KeyValue:
        js = self._connection.jetstream()
        config = api.KeyValueConfig(
            self._bucket,
            history=1,
            replicas=3 if self._connection.clustered else 1,
            storage=api.StorageType.FILE,
            republish=api.RePublish(src=f"$KV.{self._bucket}.>", dest=f"{recorded(self._bucket)}.>"),
            direct=False,
        )
        try:
            return await within(js.create_key_value(config))
        except BadRequestError as error:
            if error.err_code != DIFFERENT_CONFIGURATION:
                raise StoreUnavailable(str(error)) from None
        return await within(js.key_value(self._bucket))  # somebody has set it up in their own way

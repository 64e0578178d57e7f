"""Records that few write and many read: a key-value bucket, and word of each new record.

Like the store of releases it is read entry by entry from the stream's leader, and whoever reads verifies: the store
is trusted with nothing but keeping.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

from nats.js.errors import NotFoundError
from nats.js.kv import KeyValue

from bus.errors import BusError
from bus.nats import Connection, Subscription
from bus.stores.release_store import WrongRevision, erase_entry, open_bucket, read_entry, storing, within
from bus.wire import subjects

ANYBODY = "anybody"
"""The owner of the records of clients without keys, on a server that admits everybody."""


class RecordExists(BusError):
    """Another record stands under this name, and records are never overwritten."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is another record under `{name}` already")
        self.name = name


class RecordChanged(BusError):
    """The record under this name is another than the writer thought."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the record `{name}` was changed by somebody else")
        self.name = name


def writer(connection: Connection) -> str:
    """The subject token below which a connection writes its own records; one for all where keys do not count."""
    return (
        ANYBODY if connection.credentials is None else subjects.place(connection.credentials.identity.public)
    )


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
        try:
            await self.write(name, data, 0)
        except RecordChanged:
            found = await read_entry(self._connection, self._bucket, name)
            if found is None or found.data != data:
                raise RecordExists(name) from None

    async def write(self, name: str, data: bytes, number: int) -> int:
        """Put a record in place of the one with this number, 0 for none; returns its own. Raises RecordChanged."""
        bucket = await self._open()
        try:
            return int(
                await storing(self._connection, self._bucket, partial(bucket.update, name, data, last=number))
            )
        except WrongRevision:
            erased = 0 if number else await self._erased(name)
            if not erased:
                raise RecordChanged(name) from None
            return await self.write(name, data, erased)

    async def rewrite(self, below: str, change: Callable[[bytes], bytes | None]) -> tuple[int, int]:
        """Put what it is to be now in place of records below these tokens. Raises RecordChanged.

        Returns how many were changed, and how many left: those of which `change` makes nothing.
        """
        changed, found = 0, [each for each in await self.all(below) if each.data]
        for each in found:
            data = change(each.data)
            if data is not None:
                await self.write(each.name, data, each.number)
                changed += 1
        return changed, len(found) - changed

    async def get(self, name: str) -> Record | None:
        """The record under a name; None if there never was one."""
        found = await read_entry(self._connection, self._bucket, name)
        return None if found is None else Record(found.revision, found.key, found.data)

    async def count(self, names: str) -> int:
        """How many records there are whose names match a pattern, those taken out included."""
        return len(await self._matching(names))

    async def erase(self, name: str) -> None:
        """Take a record out so that soon nothing is left of it."""
        await erase_entry(self._connection, self._bucket, name)

    async def remove(self, name: str) -> None:
        """Take a record out."""
        await within((await self._open()).delete(name))

    async def since(self, number: int, below: str = "") -> list[Record]:
        """The records written after this number, oldest first; each name once, as it stands now.

        With `below`, only those whose names begin with these tokens. What is written meanwhile, which may be a record
        written anew, is for the next time: whoever writes on and on would be read for ever.
        """
        last, found = await self.newest(below), list[Record]()
        if last > number:
            async for record in self.read(number, below):
                if record.number > last:
                    break
                found.append(record)
        return found

    async def all(self, below: str = "") -> list[Record]:
        """The records whose names begin with these tokens, as they stand now, also those written anew meanwhile."""
        names = await self._matching(_names(below))
        found = {each.name: each for each in await self.since(0, below)}
        for name in names - found.keys():
            record = await self.get(name)
            if record is not None:
                found[name] = record
        return list(found.values())

    async def read(self, number: int, below: str = "") -> AsyncIterator[Record]:
        """The same, one after the other: whoever is interrupted goes on from the last."""
        while (
            entry := await read_entry(self._connection, self._bucket, _names(below), number + 1)
        ) is not None:
            number = entry.revision
            yield Record(number, entry.key, entry.data)

    async def newest(self, below: str = "") -> int:
        """The number of the newest record; 0 if there is none."""
        entry = await read_entry(self._connection, self._bucket, _names(below))
        return 0 if entry is None else entry.revision

    async def listen(self, on_news: Callable[[], None], below: str = "") -> Subscription:
        """Call back whenever there may be a new record, with `below` one whose name begins with these tokens."""
        heard = f"{subjects.recorded(self._bucket)}.{_names(below)}"
        return await self._connection.listen(heard, lambda *_: on_news())

    async def _matching(self, names: str) -> set[str]:
        """The names that match a pattern, those of records taken out included."""
        stream, keys = f"KV_{self._bucket}", subjects.kept(self._bucket, "")
        try:
            info = await within(
                self._connection.jetstream().stream_info(stream, subjects_filter=keys + names)
            )
        except NotFoundError:
            return set()
        return {each.removeprefix(keys) for each in info.state.subjects or {}}

    async def _erased(self, name: str) -> int:
        """The number under which it stands that there is no such record any more; 0 if nothing says so."""
        found = await read_entry(self._connection, self._bucket, name)
        return 0 if found is None or found.data else found.revision

    async def _open(self) -> KeyValue:
        """The bucket by the connection as it is now: what was opened before it was built anew is of no use."""
        return await open_bucket(self._connection, self._bucket, 1, subjects.recorded(self._bucket))


def _names(below: str) -> str:
    """The pattern of the names that begin with these tokens."""
    return f"{below}.>" if below else ">"

"""State that several replicas share: documents of any size, each changed by compare-and-set.

Each replica writes below a word of its own, which the server sees to; so nobody else puts anything in the place of a
document. It is one document all the same: a change counts only if nothing was written under its name, at whatever
place, since it was read. What else stands there was put there by others, and whoever reads it must know his own. Where
others write on and on, a replica writes by what stands at its own place alone.
A document larger than a message is stored in pieces, each under its own hash; the entry that names them is
written last, and is the one point at which anything changes. Pieces that it no longer names are then deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial

import msgspec
from nats.js.errors import BadRequestError

from authz.errors import UNREADABLE
from bus.errors import BusError, StoreUnavailable
from bus.nats import Connection
from bus.stores.record_store import writer
from bus.stores.release_store import (
    CHUNK_BYTES,
    Found,
    WrongRevision,
    erase_entry,
    open_bucket,
    read_entry,
    storing,
)
from bus.wire import kept, written

MAX_PIECES = 32
"""Maximum pieces of a document that are read: whoever else may write here must not fill a reader's memory."""
_ATTEMPTS = 3
_LAST, _LAST_OF = "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"
_WRONG_LAST = {10071, 10164}
"""The server's error numbers for a compare-and-set that lost against another write."""


class StateMoved(BusError):
    """Somebody else has changed a document since it was read: read it again, and do it again."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the state `{name}` was changed by another replica meanwhile")
        self.name = name


@dataclass(frozen=True, slots=True)
class State:
    """A document as it stood when it was read."""

    revision: int
    """Of the document, wherever it was changed last: a change of it must know this."""
    data: bytes | None
    """None if it was taken out; nothing if it cannot be read."""
    place: str = ""
    """The word below which it stands; nothing where versions before had no such words."""
    at: int = field(default=0, compare=False)
    """The revision at which it was written at its place."""


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    pieces: tuple[str, ...] = ()
    data: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Entry).decode


class StateStore:
    """One bucket of documents. Their names are tokens joined by dots."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        self._connection = connection
        self._bucket = bucket
        self.place = writer(connection)
        """The word below which this one writes."""

    async def read(self, name: str) -> AsyncIterator[State]:
        """What stands under a name, at whatever place, the newest first. Raises StoreUnavailable, as all of these do.

        Last comes what was stored by a version that had no places.
        """
        newest = await self._entry(f"*.{name}")
        if newest is not None:
            yield await self._state(newest, newest.revision, name)
            others, number = dict[str, Found](), 0
            while (found := await self._entry(f"*.{name}", number + 1)) is not None:
                number = found.revision
                if number > newest.revision:  # or whoever writes on and on would be read for ever
                    break
                others[found.key] = found
            for other in sorted(others.values(), key=lambda each: each.revision, reverse=True):
                if other.key != newest.key:
                    yield await self._state(other, newest.revision, name)
        if (before := await self._entry(name)) is not None:
            yield await self._state(before, newest.revision if newest is not None else 0, name)

    async def write(self, name: str, data: bytes, revision: int, alone: bool = False) -> int:
        """Replace what stood there at this revision, 0 for nothing; returns the new one. Raises StateMoved.

        `alone` looks at one's own place only: whoever writes so must look afterwards whether another replica has, too.
        """
        if len(data) > MAX_PIECES * CHUNK_BYTES:
            raise StoreUnavailable(f"the state `{name}` has {len(data):,} bytes, which nobody would read")
        await self._open()
        before = await self._entry(f"{self.place}.{name}")
        if before is not None and before.revision > revision:
            raise StateMoved(name)
        pieces = await self._put(data) if len(data) > CHUNK_BYTES else ()
        entry = _encode(_Entry(pieces) if pieces else _Entry((), data))
        try:
            if alone:
                last, subject = before.revision if before is not None else 0, f"{self.place}.{name}"
            else:
                last, subject = revision, f"*.{name}"
            new = await self._write(f"{self.place}.{name}", entry, last, subject)
        except WrongRevision:
            raise StateMoved(name) from None
        if before is not None and before.data:
            await self._delete(set(_read(before.data).pieces) - set(pieces))
        return new

    async def _entry(self, key: str, start: int | None = None) -> Found | None:
        return await read_entry(self._connection, self._bucket, key, start)

    async def _state(self, found: Found, revision: int, name: str) -> State:
        place = found.key.removesuffix(name).removesuffix(".")
        if not found.data:
            return State(revision, None, place, found.revision)
        for _ in range(_ATTEMPTS):
            content = await self._content(_read(found.data), place)
            if content is not None:
                return State(revision, content, place, found.revision)
            again = await self._entry(found.key)  # it may have been replaced while it was read
            if again is None or not again.data or again.revision == found.revision:
                break
            found = again
        return State(revision, b"", place, found.revision)

    async def _content(self, entry: _Entry, place: str) -> bytes | None:
        content = entry.data
        if len(entry.pieces) > MAX_PIECES:
            return None
        for hash_ in entry.pieces:
            piece = await self._entry(_piece(place, hash_))
            if piece is None or hashlib.sha256(piece.data).hexdigest() != hash_:
                return None
            content += piece.data
        return content

    async def _put(self, data: bytes) -> tuple[str, ...]:
        hashes = []
        for start in range(0, len(data), CHUNK_BYTES):
            piece = data[start : start + CHUNK_BYTES]
            hashes.append(hashlib.sha256(piece).hexdigest())
            await self._write(_piece(self.place, hashes[-1]), piece)
        return tuple(hashes)

    async def _delete(self, hashes: set[str]) -> None:
        for hash_ in hashes:
            await erase_entry(self._connection, self._bucket, _piece(self.place, hash_))

    async def _write(self, key: str, data: bytes, revision: int | None = None, last: str = "") -> int:
        """Write an entry; with a revision, only if nothing was written later that matches `last`."""
        headers = {}
        if revision is not None:
            headers = {_LAST: str(revision), _LAST_OF: kept(self._bucket, last)}
        subject, js = written(self._bucket, key), self._connection.jetstream()
        try:
            stored = await storing(
                self._connection, self._bucket, partial(js.publish, subject, data, headers=headers or None)
            )
        except BadRequestError as error:
            if error.err_code not in _WRONG_LAST:
                raise StoreUnavailable(error.description or "it does not take what is written") from None
            raise WrongRevision from None
        return int(stored.seq)

    async def _open(self) -> None:
        """See that there is a bucket."""
        await open_bucket(self._connection, self._bucket, 1)


def _piece(place: str, hash_: str) -> str:
    return f"{place}.piece.{hash_}" if place else f"piece.{hash_}"


def _read(data: bytes) -> _Entry:
    """What an entry says: nothing, where it can be read no more."""
    try:
        return _decode(data)
    except UNREADABLE:
        return _Entry()

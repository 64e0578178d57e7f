"""State that several replicas share: documents of any size, each changed by compare-and-set.

A document larger than a message is stored in pieces, each under its own hash; the entry that names them is
written last, and is the one point at which anything changes. Pieces that it no longer names are then deleted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial

import msgspec
from nats.js.kv import KeyValue

from authz.errors import UNREADABLE
from bus.errors import BusError, ContentMissing
from bus.nats import Connection
from bus.stores.release_store import CHUNK_BYTES, WrongRevision, erase_entry, open_bucket, read_entry, storing

_ATTEMPTS = 3


class StateMoved(BusError):
    """Somebody else has changed a document since it was read: read it again, and do it again."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the state `{name}` was changed by another replica meanwhile")
        self.name = name


@dataclass(frozen=True, slots=True)
class State:
    """A document as it stood when it was read."""

    revision: int
    data: bytes


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

    async def read(self, name: str) -> State | None:
        """A document; None if there is none. Raises StoreUnavailable, as all of these do, or ContentMissing."""
        for attempt in range(_ATTEMPTS):
            found = await read_entry(self._connection, self._bucket, name)
            if found is None or not found.data:
                return None
            try:
                return State(found.revision, await self._content(_read(found.data, name)))
            except ContentMissing:
                if attempt == _ATTEMPTS - 1:  # else it was replaced while it was read
                    raise
        return None

    async def write(self, name: str, data: bytes, revision: int) -> int:
        """Replace what stood there at this revision, 0 for nothing; returns the new one. Raises StateMoved."""
        bucket = await self._open()
        before = await read_entry(self._connection, self._bucket, name)
        if (before.revision if before is not None else 0) != revision:
            raise StateMoved(name)
        pieces = await self._put(bucket, data) if len(data) > CHUNK_BYTES else ()
        entry = _encode(_Entry(pieces) if pieces else _Entry((), data))
        try:
            new = int(
                await storing(
                    self._connection, self._bucket, partial(bucket.update, name, entry, last=revision)
                )
            )
        except WrongRevision:
            raise StateMoved(name) from None
        if before is not None and before.data:
            await self._delete(set(_read(before.data, name).pieces) - set(pieces))
        return new

    async def _content(self, entry: _Entry) -> bytes:
        if not entry.pieces:
            return entry.data
        content = b""
        for hash_ in entry.pieces:
            piece = await read_entry(self._connection, self._bucket, f"piece.{hash_}")
            if piece is None or hashlib.sha256(piece.data).hexdigest() != hash_:
                raise ContentMissing(hash_)
            content += piece.data
        return content

    async def _put(self, bucket: KeyValue, data: bytes) -> tuple[str, ...]:
        hashes = []
        for start in range(0, len(data), CHUNK_BYTES):
            piece = data[start : start + CHUNK_BYTES]
            hashes.append(hashlib.sha256(piece).hexdigest())
            await storing(self._connection, self._bucket, partial(bucket.put, f"piece.{hashes[-1]}", piece))
        return tuple(hashes)

    async def _delete(self, hashes: set[str]) -> None:
        for hash_ in hashes:
            await erase_entry(self._connection, self._bucket, f"piece.{hash_}")

    async def _open(self) -> KeyValue:
        """The bucket by the connection as it is now: what was opened before it was built anew is of no use."""
        return await open_bucket(self._connection, self._bucket, 1)


def _read(data: bytes, name: str) -> _Entry:
    try:
        return _decode(data)
    except UNREADABLE:
        raise ContentMissing(name) from None

"""Audit records in a file: the same pages and hash chains as in the stream, for who has no bus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from authz.errors import UNREADABLE
from bus.audit.store import Page
from bus.errors import StoreUnavailable


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """A page of records, or a signed head."""

    writer: str
    records: list[bytes] = []
    head: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Entry).decode
_LENGTH_BYTES = 4


class AuditFile:
    """Appends to one file. Several writers may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pages = 0

    async def append(self, writer: str, records: Sequence[bytes], key: str) -> int:
        """Store a page; returns its number in this process. Raises StoreUnavailable."""
        await asyncio.to_thread(self._write, _Entry(writer, list(records)))
        self._pages += 1
        return self._pages

    async def put_head(self, writer: str, head: bytes) -> None:
        """Store where a writer's chain stands. Raises StoreUnavailable."""
        await asyncio.to_thread(self._write, _Entry(writer, head=head))

    def _write(self, entry: _Entry) -> None:
        encoded = _encode(entry)
        try:
            with self.path.open("ab") as file:
                file.write(len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded)
        except OSError as error:
            raise StoreUnavailable(f"`{self.path}` cannot be written: {error.strerror}") from None

    def pages(self) -> Iterator[Page]:
        """The pages, in order; the last has no records if the file ends within it."""
        for number, entry in enumerate(self._entries(), start=1):
            if not entry.head:
                yield Page(number, entry.writer, entry.records)

    def heads(self) -> Iterator[tuple[str, bytes]]:
        """The heads that writers have signed, oldest first."""
        return ((each.writer, each.head) for each in self._entries() if each.head)

    def _entries(self) -> Iterator[_Entry]:
        writer = ""
        with self.path.open("rb") as file:
            while length := file.read(_LENGTH_BYTES):
                try:
                    entry = _decode(file.read(int.from_bytes(length, "big")))
                except UNREADABLE:
                    yield _Entry(writer)
                    return
                writer = entry.writer
                yield entry

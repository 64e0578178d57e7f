"""The store of releases: one entry for each domain, written by compare-and-set, and the content they name.

Content comes first, each piece under its domain and its own hash, so that nobody puts anything in its place who
releases for another domain; then the release. So that entry is the one point at which anything changes, and whoever
reads it finds everything it names.

It is read from the stream's leader, never from a copy that may lag. A leader that is cut off from the other servers
goes on answering for about ten seconds; but it says how long ago a majority acknowledged it (`Position.age`), and
leases are dated back by that. The store is read entry by entry rather than watched: a consumer would have to survive
everything that a reader does not notice. The server repeats each release on a subject as soon as it is stored; that
tells readers when to look.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from time import monotonic, time
from typing import TypeVar

import nats.errors
from nats.js import api
from nats.js.errors import (
    APIError,
    BadRequestError,
    KeyWrongLastSequenceError,
    NoStreamResponseError,
    NotFoundError,
)
from nats.js.kv import KeyValue

from bus.errors import ContentMissing, NotConnected, NotPermitted, Overtaken, StoreFull, StoreUnavailable
from bus.nats import Connection, Subscription
from bus.runtime import result_within
from bus.stores.stream_position import Position, ask_position
from bus.wire import CONTENT, NEWEST, RELEASED, RELEASES, kept, released, token, written

T = TypeVar("T")

_log = logging.getLogger("authfabric.releases")

HISTORY = 64
"""How many releases of a domain are kept: the most that a bucket can."""
CHUNK_BYTES = 512 * 1024
TRIAL_BYTES = 128 * 1024
"""Bytes that must still fit, or the store counts as full."""
SECONDS = 3.0
"""Seconds to wait for an answer of the store to a request that is repeated."""
WRITE_SECONDS = 10.0
"""Seconds to wait for a write: a disk may be busy, and repeating the write would be a second change."""
LEADER_SECONDS = 0.2
"""Time between two attempts to write while a stream has no leader."""
OLD_SECONDS = 12 * 3600.0
"""Content that is older is written again by whoever is about to release it: see `content_garbage_collection`."""
ERASED_SECONDS = 60
"""Seconds for which a bucket keeps the marker of a deleted entry."""

DIFFERENT_CONFIGURATION = 10058
_NO_ROOM = {10023, 10047, 10077}
"""The server's error numbers for a storage limit that is reached."""
_NO_PEERS = 10005
"""The number by which a cluster says that no server may take a stream, for want of room among other things."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A release as it stands in the store, not yet verified; without data if somebody has deleted it."""

    revision: int
    data: bytes


def chunk_hashes(content: bytes) -> tuple[str, ...]:
    """The names under which the pieces of some content are stored."""
    return tuple(hashlib.sha256(chunk).hexdigest() for chunk in _chunks(content))


def piece(domain: str, hash_: str) -> str:
    """Under which key a piece of a domain's content stands."""
    return f"blob.{token(domain)}.{hash_}"


class ReleaseStore:
    """Releases and their content, in the key-value buckets of the connection's server."""

    def __init__(self, connection: Connection, seconds: float = SECONDS) -> None:
        self._connection = connection
        self._seconds = seconds

    async def newest(self, domain: str) -> Stored | None:
        """The domain's newest release; None if it has none. Raises StoreUnavailable, as all of these do."""
        return await self._read(domain)

    async def position(self) -> Position:
        """Where the store stands now, and how old that answer may be."""
        return await ask_position(self._connection, f"KV_{RELEASES}", self._seconds)

    async def history(self, domain: str, after: int = 0) -> list[Stored]:
        """The releases kept, oldest first, beginning after a revision."""
        found: list[Stored] = []
        while (stored := await self._read(domain, after + 1)) is not None:
            found.append(stored)
            after = stored.revision
        return found

    async def commit(self, domain: str, data: bytes, previous: int) -> int:
        """Store a release after the revision `previous`, 0 for none; returns its own. Raises Overtaken.

        It is content too, under its own hash: descent can be shown when the history keeps it no longer.
        """
        await self.put(domain, data)
        bucket = await self._bucket(RELEASES, HISTORY)
        try:
            revision = int(
                await self._write(RELEASES, partial(bucket.update, token(domain), data, last=previous))
            )
        except (WrongRevision, StoreUnavailable) as error:
            # The acknowledgement may have been lost and not the release: then ours is what stands there.
            newest = await self.newest(domain)
            if newest is None or newest.data != data:
                if isinstance(error, StoreUnavailable):
                    raise
                raise Overtaken(domain, previous, newest.revision if newest else 0) from None
            revision = newest.revision
        try:
            await self.mark(domain, data)
        except StoreUnavailable as error:  # it is released all the same
            _log.warning("the second record of the newest release of `%s` is not written: %s", domain, error)
        return revision

    async def mark(self, domain: str, data: bytes) -> None:
        """Write down a second time, in other files, which release is the newest."""
        bucket = await self._bucket(NEWEST, 1)
        await self._write(NEWEST, partial(bucket.put, token(domain), data))

    async def marked(self, domain: str) -> bytes:
        """What was written down so; nothing if nothing was."""
        found = await self._message(NEWEST, token(domain))
        return b"" if found is None else found.data

    async def readable(self, revision: int) -> bool:
        """Whether the entry of a revision, of whatever domain, can be read."""
        try:
            reading = self._connection.jetstream().get_msg(f"KV_{RELEASES}", seq=revision)
            await self._within(reading)
        except NotFoundError:
            return False
        return True

    async def put(self, domain: str, content: bytes) -> tuple[str, ...]:
        """Store the pieces of some content of a domain, unless they are there; returns their hashes, in order."""
        bucket = await self._bucket(CONTENT, 1)
        for chunk in _chunks(content):
            key = piece(domain, hashlib.sha256(chunk).hexdigest())
            try:
                await self._write(CONTENT, partial(bucket.update, key, chunk, last=0))
            except WrongRevision:
                stored = await read_entry(self._connection, CONTENT, key, None, self._seconds)
                # It may be damaged, or taken out, or so old that it soon may be if no release names it.
                if stored is None or stored.data != chunk or time() - stored.at > OLD_SECONDS:
                    await self._write(CONTENT, partial(bucket.put, key, chunk))
        return chunk_hashes(content)

    async def get(self, domain: str, hashes: Iterable[str]) -> bytes:
        """Some content, from the hashes of its pieces. Raises ContentMissing if a piece is not what it should be."""
        return b"".join([await self._piece(domain, name) for name in hashes])

    async def _piece(self, domain: str, name: str) -> bytes:
        for key in (piece(domain, name), f"blob.{name}"):  # there, versions before have stored it
            stored = await self._message(CONTENT, key)
            if stored is not None and hashlib.sha256(stored.data).hexdigest() == name:
                return stored.data
        raise ContentMissing(name)

    async def listen(self, domain: str, on_news: Callable[[bytes], None]) -> Subscription:
        """Call back with each release of the domain that is said to be stored, not yet verified."""
        return await self._connection.listen(
            released(domain), lambda subject, reply, payload, headers: on_news(payload)
        )

    async def _read(self, domain: str, start: int | None = None) -> Stored | None:
        return await self._message(RELEASES, token(domain), start)

    async def _message(self, bucket: str, key: str, start: int | None = None) -> Stored | None:
        found = await read_entry(self._connection, bucket, key, start, self._seconds)
        return None if found is None else Stored(found.revision, found.data)

    async def _bucket(self, name: str, history: int) -> KeyValue:
        repeat = RELEASED if name == RELEASES else ""
        return await open_bucket(self._connection, name, history, repeat)

    async def try_room(self, domain: str) -> None:
        """Write something of a release's usual size, and take it out again. Raises StoreFull if it does not fit."""
        bucket = await self._bucket(CONTENT, 1)
        for size in (TRIAL_BYTES, 0):
            await self._write(CONTENT, partial(bucket.put, piece(domain, "trial"), os.urandom(size)))

    async def _within(self, work: Coroutine[object, object, T]) -> T:
        return await within(work, self._seconds)

    async def _write(self, bucket: str, write: Callable[[], Coroutine[object, object, T]]) -> T:
        return await storing(self._connection, bucket, write)


async def within(work: Coroutine[object, object, T], seconds: float = SECONDS) -> T:
    """The library's answer within the time; its errors become ours, but for those that are answers."""
    try:
        return await result_within(work, seconds)
    except KeyWrongLastSequenceError:
        raise WrongRevision from None
    except BadRequestError as error:
        if error.err_code == _NO_PEERS and "insufficient" in (error.description or ""):
            raise StoreFull(error.description or "") from None
        raise
    except (NotFoundError, NotPermitted):
        raise
    except APIError as error:
        if error.err_code in _NO_ROOM:
            raise StoreFull(error.description or "a limit is reached") from None
        raise StoreUnavailable(error.description or "no server that keeps it is there") from None
    except (NoStreamResponseError, nats.errors.NoRespondersError):
        raise NoLeader from None
    except (nats.errors.Error, NotConnected, OSError, RuntimeError, AssertionError, TimeoutError) as error:
        # RuntimeError is uvloop's word for a transport that is going away, AssertionError the library's for a client
        # that has not connected yet.
        problem = str(error).removeprefix("nats: ")
        raise StoreUnavailable(problem or f"no answer within {seconds:g} s") from None


class NoLeader(StoreUnavailable):
    """Nobody took what was sent: the stream has no leader at the moment, or there is no such stream."""

    def __init__(self) -> None:
        super().__init__("no server leads its stream at the moment")


async def storing(
    connection: Connection,
    bucket: str,
    write: Callable[[], Coroutine[object, object, T]],
    seconds: float = WRITE_SECONDS,
) -> T:
    """The same for what writes to a bucket, tried again while the bucket's stream elects a leader.

    A server whose disk was full does not answer whoever writes, and all others as ever; so that is looked at.
    """
    deadline = monotonic() + seconds
    while True:
        try:
            return await within(write(), max(deadline - monotonic(), LEADER_SECONDS))
        except (NotPermitted, StoreFull):
            raise
        except NoLeader:
            if monotonic() >= deadline:
                raise
            await asyncio.sleep(LEADER_SECONDS)
        except StoreUnavailable:
            await within(connection.jetstream().stream_info(f"KV_{bucket}"))
            raise StoreFull(
                "it can be read, and takes nothing: make room on its server's disk, then restart the server,"
                " which `authfabric up` does by itself"
            ) from None


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a bucket, as it stands there."""

    key: str
    revision: int
    data: bytes
    """Nothing if it was taken out."""
    at: float
    """When it was written, by the clock of the store."""


async def read_entry(
    connection: Connection, bucket: str, key: str, start: int | None = None, seconds: float = SECONDS
) -> Found | None:
    """The newest entry of a key, or with `start` the first at that revision or later; the key may have wildcards."""
    stream, keys = f"KV_{bucket}", kept(bucket, "")
    reading = connection.jetstream().get_msg(stream, seq=start, subject=keys + key, next=start is not None)
    try:
        message = await within(reading, seconds)
    except NotFoundError:
        return None
    gone = "KV-Operation" in (message.headers or {})
    data = b"" if gone else message.data or b""
    at = message.time.timestamp() if message.time is not None else 0.0
    return Found((message.subject or "").removeprefix(keys), message.seq or 0, data, at)


async def release_entries(connection: Connection) -> list[Stored]:
    """All entries of all domains, oldest first, not verified."""
    found: list[Stored] = []
    number = 0
    while (entry := await read_entry(connection, RELEASES, ">", number + 1)) is not None:
        number = entry.revision
        found.append(Stored(entry.revision, entry.data))
    return found


async def erase_entry(connection: Connection, bucket: str, key: str) -> None:
    """Take an entry out so that after a minute nothing is left of it.

    Purging the stream would do it at once; but who may purge one entry may purge all of them, those of others too.
    """
    gone = {"KV-Operation": "DEL"}
    js = connection.jetstream()
    await within(js.publish(written(bucket, key), headers=gone, msg_ttl=ERASED_SECONDS))


async def open_bucket(
    connection: Connection, name: str, history: int, repeat: str = "", seconds: float = WRITE_SECONDS
) -> KeyValue:
    """The bucket for writing, made if it is not there; the server repeats what is stored below `repeat`."""
    js, stream = connection.jetstream(), f"KV_{name}"
    config = api.StreamConfig(
        stream,
        subjects=[written(name, ">")],
        subject_transform=_keeping(name),
        max_msgs_per_subject=history,
        num_replicas=3 if connection.clustered else 1,
        storage=api.StorageType.FILE,
        republish=api.RePublish(src=kept(name, ">"), dest=f"{repeat}.>") if repeat else None,
        discard=api.DiscardPolicy.NEW,
        deny_delete=True,
        allow_msg_ttl=True,
        allow_rollup_hdrs=False,  # by that header whoever writes one entry would purge all others
    )
    try:  # most may look for it, and few may make it
        found = (await within(js.stream_info(stream), seconds)).config
    except NotFoundError:
        await _make(connection, config, seconds)
    else:
        await _guard(connection, name, found, seconds)
    return KeyValue(name, stream, written(name, ""), js, direct=False)


async def _make(connection: Connection, config: api.StreamConfig, seconds: float) -> None:
    try:
        await within(connection.jetstream().add_stream(config), seconds)
    except BadRequestError as error:  # somebody else has made it a moment ago, in their own way
        if error.err_code != DIFFERENT_CONFIGURATION:
            raise StoreUnavailable(str(error)) from None


async def _guard(connection: Connection, name: str, config: api.StreamConfig, seconds: float) -> None:
    """See to it that nobody writes to a bucket by naming it for answers, nor purges it by a header.

    It may have been made before either was forbidden.
    """
    subjects = [written(name, ">")]
    if config.subjects == subjects and not config.allow_rollup_hdrs:
        return
    config.subjects, config.subject_transform = subjects, _keeping(name)
    config.allow_rollup_hdrs = False
    await within(connection.jetstream().update_stream(config), seconds)


def _keeping(bucket: str) -> api.SubjectTransform:
    return api.SubjectTransform(src=written(bucket, ">"), dest=kept(bucket, ">"))


class WrongRevision(Exception):
    """The entry is not as the writer thought it was."""


def _chunks(content: bytes) -> Iterable[bytes]:
    return (content[start : start + CHUNK_BYTES] for start in range(0, len(content), CHUNK_BYTES))

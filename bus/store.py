"""The store of releases: one entry for each domain, written by compare-and-set, and the content they name.

Content comes first, each piece under its own hash; then the release. So that entry is the one point at which anything
changes, and whoever reads it finds everything it names.

It is read from the stream's leader, never from a copy that may lag. A leader that is cut off from the other servers
goes on answering for about ten seconds; but it says how long ago a majority acknowledged it (`Position.age`), and
leases are dated back by that. The store is read entry by entry rather than watched: a consumer would have to survive
everything that a reader does not notice. The server repeats each release on a subject as soon as it is stored; that
tells readers when to look.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TypeVar

import nats.errors
from nats.js import api
from nats.js.errors import APIError, BadRequestError, KeyWrongLastSequenceError, NotFoundError
from nats.js.kv import KeyValue

from bus.connection import Connection, Subscription
from bus.errors import ContentMissing, NotConnected, Overtaken, StoreUnavailable
from bus.subjects import CONTENT, RELEASED, RELEASES, released, token

T = TypeVar("T")

HISTORY = 64
"""How many releases of a domain are kept: the most that a bucket can."""
CHUNK_BYTES = 512 * 1024
SECONDS = 3.0
"""How long an answer of the store is waited for."""
ERASED_SECONDS = 60
"""How long it stands in a bucket that an entry was taken out."""

DIFFERENT_CONFIGURATION = 10058


@dataclass(frozen=True, slots=True)
class Stored:
    """A release as it stands in the store, not yet verified; without data if somebody has deleted it."""

    revision: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """Where the stream of releases stands, as its leader says."""

    revision: int
    """Of the newest entry of any domain."""
    leader: str
    """The leader's name and since when it leads; empty where there is one server only."""
    age: float
    """Seconds since a majority of the servers last acknowledged the leader: what it says was true then."""


def chunk_hashes(content: bytes) -> tuple[str, ...]:
    """The names under which the pieces of some content are stored."""
    return tuple(hashlib.sha256(chunk).hexdigest() for chunk in _chunks(content))


class ReleaseStore:
    """Releases and their content, in the key-value buckets of the connection's server."""

    def __init__(self, connection: Connection, seconds: float = SECONDS) -> None:
        self._connection = connection
        self._seconds = seconds

    async def newest(self, domain: str) -> Stored | None:
        """The domain's newest release; None if it has none. Raises StoreUnavailable, as all of these do."""
        return await self._read(domain)

    async def position(self) -> Position:
        """Where the store stands now, and how old that word may be."""
        try:
            info = await self._within(self._connection.jetstream().stream_info(f"KV_{RELEASES}"))
        except NotFoundError:
            return Position(0, "", 0.0)
        cluster, revision = info.cluster, info.state.last_seq
        if cluster is None or not cluster.replicas:
            return Position(revision, "", 0.0)
        ages = sorted((each.active or 0) / 1e9 for each in cluster.replicas)
        others = (len(ages) + 1) // 2  # with the leader itself these make a majority
        return Position(revision, f"{cluster.leader} {cluster.leader_since}", ages[others - 1])

    async def history(self, domain: str, after: int = 0) -> list[Stored]:
        """The releases kept, oldest first, beginning after a revision."""
        found: list[Stored] = []
        while (stored := await self._read(domain, after + 1)) is not None:
            found.append(stored)
            after = stored.revision
        return found

    async def commit(self, domain: str, data: bytes, previous: int) -> int:
        """Store a release after the revision `previous`, 0 for none; returns its own. Raises Overtaken."""
        bucket = await self._bucket(RELEASES, HISTORY)
        try:
            return int(await self._within(bucket.update(token(domain), data, last=previous)))
        except (WrongLast, StoreUnavailable) as error:
            # The acknowledgement may have been lost and not the release: then ours is what stands there.
            newest = await self.newest(domain)
            if newest is not None and newest.data == data:
                return newest.revision
            if isinstance(error, StoreUnavailable):
                raise
            raise Overtaken(domain, previous, newest.revision if newest else 0) from None

    async def put(self, content: bytes) -> tuple[str, ...]:
        """Store the pieces of some content, unless they are there; returns their hashes, in order."""
        bucket = await self._bucket(CONTENT, 1)
        for chunk in _chunks(content):
            name = hashlib.sha256(chunk).hexdigest()
            try:
                await self._within(bucket.update(f"blob.{name}", chunk, last=0))
            except WrongLast:
                continue
        return chunk_hashes(content)

    async def get(self, hashes: Iterable[str]) -> bytes:
        """Some content, from the hashes of its pieces. Raises ContentMissing if a piece is not what it should be."""
        content = b""
        for name in hashes:
            stored = await self._message(CONTENT, f"blob.{name}")
            if stored is None or hashlib.sha256(stored.data).hexdigest() != name:
                raise ContentMissing(name)
            content += stored.data
        return content

    async def listen(self, domain: str, on_news: Callable[[], None]) -> Subscription:
        """Call back whenever the domain may have a new release."""
        return await self._connection.listen(released(domain), lambda *_: on_news())

    async def _read(self, domain: str, start: int | None = None) -> Stored | None:
        return await self._message(RELEASES, token(domain), start)

    async def _message(self, bucket: str, key: str, start: int | None = None) -> Stored | None:
        found = await read_entry(self._connection, bucket, key, start, self._seconds)
        return None if found is None else Stored(found.revision, found.data)

    async def _bucket(self, name: str, history: int) -> KeyValue:
        repeat = RELEASED if name == RELEASES else ""
        return await open_bucket(self._connection, name, history, repeat, self._seconds)

    async def _within(self, work: Coroutine[object, object, T]) -> T:
        return await within(work, self._seconds)


async def within(work: Coroutine[object, object, T], seconds: float = SECONDS) -> T:
    """The library's answer within the time; its errors become ours, but for those that are answers."""
    try:
        return await asyncio.wait_for(work, seconds)
    except KeyWrongLastSequenceError:
        raise WrongLast from None
    except (NotFoundError, BadRequestError):
        raise
    except APIError as error:
        raise StoreUnavailable(error.description or "no server that keeps it is there") from None
    except (nats.errors.Error, NotConnected, OSError, RuntimeError, TimeoutError) as error:
        # RuntimeError is uvloop's word for a transport that is going away.
        problem = str(error).removeprefix("nats: ")
        raise StoreUnavailable(problem or f"no answer within {seconds:g} s") from None


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a bucket, as it stands there."""

    key: str
    revision: int
    data: bytes
    """Nothing if it was taken out."""


async def read_entry(
    connection: Connection, bucket: str, key: str, start: int | None = None, seconds: float = SECONDS
) -> Found | None:
    """The newest entry of a key, or with `start` the first at that revision or later; the key may have wildcards."""
    stream, keys = f"KV_{bucket}", f"$KV.{bucket}."
    reading = connection.jetstream().get_msg(stream, seq=start, subject=keys + key, next=start is not None)
    try:
        message = await within(reading, seconds)
    except NotFoundError:
        return None
    gone = "KV-Operation" in (message.headers or {})
    data = b"" if gone else message.data or b""
    return Found((message.subject or "").removeprefix(keys), message.seq or 0, data)


async def erase_entry(connection: Connection, bucket: str, key: str) -> None:
    """Take an entry out so that after a minute nothing is left of it.

    Purging the stream would do it at once; but who may purge one entry may purge all of them, those of others too.
    """
    gone = {"KV-Operation": "DEL"}
    js = connection.jetstream()
    await within(js.publish(f"$KV.{bucket}.{key}", headers=gone, msg_ttl=ERASED_SECONDS))


async def open_bucket(
    connection: Connection, name: str, history: int, repeat: str = "", seconds: float = SECONDS
) -> KeyValue:
    """The bucket, made if it is not there; the server repeats what is stored below the subject `repeat`."""
    js = connection.jetstream()
    with contextlib.suppress(NotFoundError):  # most may look for it, and few may make it
        return await within(js.key_value(name), seconds)
    config = api.StreamConfig(
        f"KV_{name}",
        subjects=[f"$KV.{name}.>"],
        max_msgs_per_subject=history,
        num_replicas=3 if connection.clustered else 1,
        storage=api.StorageType.FILE,
        republish=api.RePublish(src=f"$KV.{name}.>", dest=f"{repeat}.>") if repeat else None,
        discard=api.DiscardPolicy.NEW,
        deny_delete=True,
        allow_msg_ttl=True,
        allow_rollup_hdrs=False,  # by that header whoever writes one entry would purge all others
    )
    try:
        await within(js.add_stream(config), seconds)
    except BadRequestError as error:
        if error.err_code != DIFFERENT_CONFIGURATION:
            raise StoreUnavailable(str(error)) from None
    return await within(js.key_value(name), seconds)  # perhaps somebody has set it up in their own way


async def guard_bucket(connection: Connection, name: str) -> None:
    """See to it that nobody purges a bucket by a header, though it was made before that was forbidden."""
    js = connection.jetstream()
    config = (await within(js.stream_info(f"KV_{name}"))).config
    if config.allow_rollup_hdrs:
        config.allow_rollup_hdrs = False
        await within(js.update_stream(config))


class WrongLast(Exception):
    """The entry is not as the writer thought it was."""


def _chunks(content: bytes) -> Iterable[bytes]:
    return (content[start : start + CHUNK_BYTES] for start in range(0, len(content), CHUNK_BYTES))

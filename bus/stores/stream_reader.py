"""Reading the messages of a stream on one subject, and no others: so that a right to read can be as narrow as that.

A message can be asked for by its number only by whoever may read the whole stream. A consumer's subject stands in the
subject of the request that makes it, and the server holds both to be the same; so servers can tell who asks for what.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from bus.errors import BusError, StoreUnavailable
from bus.nats import Connection
from bus.stores.jetstream_api import CONSUMER, SECONDS, STREAM, Answer, StreamMissing, request

BATCH = 64
ATTEMPTS = 5
"""Maximum consumers lost in a row without a message read in between."""
PAUSE_SECONDS = 1.0
"""Seconds before another consumer is made."""
_IDLE_NANOSECONDS = 30 * 10**9
"""How long after its last request the server deletes a consumer that was not ended."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it stands in the stream."""

    number: int
    subject: str
    data: bytes


class _Created(Answer, frozen=True):
    num_pending: int = 0


def rights(stream: str, subject: str) -> set[str]:
    """What those publish who may read this subject of a stream, and nothing else of it."""
    own = {f"{CONSUMER}.MSG.NEXT.{stream}.*", f"{CONSUMER}.DELETE.{stream}.*", f"{STREAM}.INFO.{stream}"}
    return {f"{CONSUMER}.CREATE.{stream}.*.{subject}", *own}


async def read_stream(
    connection: Connection, stream: str, subject: str, after: int = 0
) -> AsyncGenerator[Message]:
    """The messages that are kept, oldest first, beginning after a number. Raises StoreUnavailable.

    A consumer may be lost on the way, with the server that held it. Another one goes on where it was.
    """
    read, failures = False, 0
    while True:
        try:
            async with aclosing(_read_on(connection, stream, subject, after)) as messages:
                async for message in messages:
                    after, read, failures = message.number, True, 0
                    yield message
            return
        except StoreUnavailable:
            failures += 1
            if not read or failures == ATTEMPTS:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def _read_on(connection: Connection, stream: str, subject: str, after: int) -> AsyncGenerator[Message]:
    """The same by one consumer, for as long as it is there."""
    reader = _Reader(connection, stream, secrets.token_hex(16))
    pending = await reader.create(subject, after)
    if not pending:
        return
    arrived: asyncio.Queue[tuple[str, str, bytes]] = asyncio.Queue()
    place = f"{connection.own_place}.{reader.name}"
    subscription = await connection.listen(place, lambda s, r, data, h: arrived.put_nowait((s, r, data)))
    try:
        while pending:
            expected = min(pending, BATCH)
            reader.ask(expected, place)
            while expected:
                message, pending = _read(*await _next(arrived))
                if message.number > after:  # while a connection is renewed, a message may be heard twice
                    after, expected = message.number, expected - 1
                    yield message
    finally:
        reader.end()
        with contextlib.suppress(BusError):
            await subscription.cancel()


@dataclass(frozen=True, slots=True)
class _Reader:
    """A consumer of the stream, whose name nobody else knows."""

    connection: Connection
    stream: str
    name: str

    async def create(self, subject: str, after: int) -> int:
        """How many messages there are to read; none if there is no such stream."""
        config = {
            "name": self.name,
            "filter_subject": subject,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after + 1,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _IDLE_NANOSECONDS,
        }
        create = {"stream_name": self.stream, "config": config, "action": "create"}
        where = f"{CONSUMER}.CREATE.{self.stream}.{self.name}.{subject}"
        try:
            return (await request(self.connection, where, _Created, create)).num_pending
        except StreamMissing:
            return 0

    def ask(self, count: int, reply: str) -> None:
        batch = msgspec.json.encode({"batch": count, "expires": int(SECONDS * 10**9)})
        self._send(f"{CONSUMER}.MSG.NEXT.{self.stream}.{self.name}", batch, reply)

    def end(self) -> None:
        with contextlib.suppress(BusError):
            nowhere = f"{self.connection.own_place}.ended"
            self._send(f"{CONSUMER}.DELETE.{self.stream}.{self.name}", b"", nowhere)

    def _send(self, subject: str, data: bytes, reply: str) -> None:
        try:
            self.connection.send(subject, data, reply)
        except BusError as error:
            raise StoreUnavailable(str(error)) from None


async def _next(arrived: asyncio.Queue[tuple[str, str, bytes]]) -> tuple[str, str, bytes]:
    try:
        async with asyncio.timeout(SECONDS):
            return await arrived.get()
    except TimeoutError:
        raise StoreUnavailable(f"no answer within {SECONDS:g} s") from None


def _read(subject: str, reply: str, data: bytes) -> tuple[Message, int]:
    """A message, and how many are left. Its number and theirs stand where it would be acknowledged."""
    words = reply.split(".")
    if len(words) < 9 or words[:2] != ["$JS", "ACK"]:
        raise StoreUnavailable("what the server sent is no message of the stream")
    return Message(int(words[-4]), subject, data), int(words[-1])

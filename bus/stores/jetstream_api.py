"""Requests to the API of JetStream, and what is read of its answers.

Members ask every second or two. So only what somebody needs is read: the library would turn each answer into objects,
which costs five times as much.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TypeVar

import msgspec

from bus.errors import BusError, NoResponders, ReplyTimeout, StoreUnavailable
from bus.nats import Connection

STREAM = "$JS.API.STREAM"
CONSUMER = "$JS.API.CONSUMER"
SECONDS = 5.0
"""How long an answer is waited for."""
AGAIN_SECONDS = 0.5
"""Time after which what changes nothing is asked again, if time matters: without a leader nobody ever answers."""
_NANOSECOND = 1e-9


class StreamMissing(StoreUnavailable):
    """There is no such stream."""


class ConsumerMissing(StoreUnavailable):
    """There is no such consumer."""


_MISSING: dict[int, type[StoreUnavailable]] = {10059: StreamMissing, 10014: ConsumerMissing}
"""Errors of their own, by the server's error number."""


class ApiError(msgspec.Struct, frozen=True):
    """What the server refuses, and why."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class Answer(msgspec.Struct, frozen=True):
    """An answer of which nothing is read but whether it is an error."""

    error: ApiError | None = None


class Peer(msgspec.Struct, frozen=True):
    """A server that follows the leader."""

    name: str = ""
    current: bool = False
    offline: bool = False
    active: int = 0
    """Nanoseconds since it was last heard."""
    lag: int = 0
    """Messages that it does not have yet."""

    @property
    def age(self) -> float:
        """Seconds since it was last heard."""
        return self.active * _NANOSECOND


class Cluster(msgspec.Struct, frozen=True):
    """The servers that keep a stream or a consumer."""

    leader: str = ""
    leader_since: str = ""
    replicas: list[Peer] = []


class Content(msgspec.Struct, frozen=True):
    """What is in a stream."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    consumer_count: int = 0


class StreamInfo(Answer, frozen=True):
    """A stream, as its leader describes it."""

    ts: datetime | None = None
    """The leader's clock."""
    config: msgspec.Raw = msgspec.Raw(b"{}")
    state: Content = Content()
    cluster: Cluster = Cluster()


A = TypeVar("A", bound=Answer)


async def stream_info(
    connection: Connection, stream: str, seconds: float = SECONDS, *, again: bool = False
) -> StreamInfo:
    """A stream as it is now. Raises StreamMissing, NotPermitted or StoreUnavailable."""
    return await request(connection, f"{STREAM}.INFO.{stream}", StreamInfo, seconds=seconds, again=again)


async def request(
    connection: Connection,
    subject: str,
    kind: type[A],
    content: object = None,
    seconds: float = SECONDS,
    *,
    again: bool = False,
) -> A:
    """What the server answers. Raises StreamMissing, ConsumerMissing, NotPermitted or StoreUnavailable.

    With `again` it is asked until somebody leads, which is for those of whom there are few.
    """
    payload = b"" if content is None else msgspec.json.encode(content)
    try:
        if again:
            return read_answer(await ask_again(connection, subject, payload, seconds), kind)
        return read_answer(await connection.ask(subject, payload, seconds), kind)
    except StoreUnavailable:
        raise
    except NoResponders:
        raise StoreUnavailable("no server that keeps it is there") from None
    except ReplyTimeout:
        raise StoreUnavailable(f"no answer within {seconds:g} s") from None
    except BusError as error:
        raise StoreUnavailable(str(error)) from None


async def ask_again(connection: Connection, subject: str, payload: bytes, seconds: float = SECONDS) -> bytes:
    """The first answer to what is asked again and again: whoever leads may be elected meanwhile. Raises BusError."""
    loop, asked = asyncio.get_running_loop(), set[asyncio.Task[bytes]]()
    until = loop.time() + seconds
    try:
        while True:
            left = until - loop.time()
            asked.add(asyncio.create_task(connection.ask(subject, payload, left)))
            done, _ = await asyncio.wait(
                asked, timeout=min(AGAIN_SECONDS, left), return_when=asyncio.FIRST_COMPLETED
            )
            for each in done:
                return each.result()
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


def read_answer(data: bytes, kind: type[A]) -> A:
    """An answer that is no error. Raises StreamMissing, ConsumerMissing or StoreUnavailable."""
    try:
        answer = msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise StoreUnavailable(str(error)) from None
    if answer.error is None:
        return answer
    wrong = _MISSING.get(answer.error.err_code, StoreUnavailable)
    raise wrong(answer.error.description or f"error {answer.error.code}")

"""Publishing into streams: what was not acknowledged is published again, under one `Nats-Msg-Id`, until it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum

import msgspec

from bus.errors import BadMessage, BusError, StoreUnavailable
from bus.nats import Connection
from bus.stores.jetstream_api import Answer
from bus.stores.parcel_delivery import SENDER_HEADER
from bus.wire import subjects

ACK_SECONDS = 5.0
"""Maximum seconds to wait for an acknowledgement before publishing again."""
FIRST_ACK_SECONDS = 0.5
"""Seconds it waits the first time, doubled with each attempt: a leader that died never answers."""
PAUSE_SECONDS = 0.25
"""Pause before something that the stream refused is published again."""
_NO_ACK = "what the server answered is no acknowledgement"

_log = logging.getLogger("authfabric.bus")


class Acknowledgement(Enum):
    """How a parcel came to be in the stream."""

    STORED = "stored"
    """By this attempt."""
    KNOWN = "known"
    """Something of its id was there before the first attempt."""
    DOUBTFUL = "doubtful"
    """By an attempt that was not answered; or somebody else has published under its id meanwhile."""


class _PubAck(Answer, frozen=True):
    seq: int = 0
    duplicate: bool = False


_decode_ack = msgspec.json.Decoder(_PubAck).decode


async def acknowledged_number(connection: Connection, subject: str, data: bytes) -> int:
    """Publish something, and return its number when a stream has it. Raises StoreUnavailable."""
    try:
        answer = await connection.ask(subject, data, ACK_SECONDS)
        problem, _ = _answer(answer)
    except BusError as error:
        raise StoreUnavailable(str(error)) from None
    if problem:
        raise StoreUnavailable(problem)
    return _decode_ack(answer).seq


class ParcelPublisher:
    """Publishes parcels until the stream has them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._problem = ""
        self._pending: dict[str, asyncio.TimerHandle] = {}
        self._ended = False

    def publish(
        self,
        subject: str,
        id_: str,
        make: Callable[[], bytes],
        done: Callable[[Acknowledgement], None],
        attempt: int = 0,
    ) -> None:
        """Publish what `make` gives, again and again, until it is acknowledged; then call back."""
        if self._ended:
            return
        loop, connection = asyncio.get_running_loop(), self._connection

        def take(data: bytes, nobody: bool) -> None:
            if reply not in self._pending:
                return
            problem, known = ("there is no stream for events", False) if nobody else _answer(data)
            settle()
            if problem:
                retry(problem)
                return
            if self._problem:
                self._problem = ""
                _log.warning("events are carried again")
            if not known:
                done(Acknowledgement.STORED)
            else:
                done(Acknowledgement.DOUBTFUL if attempt else Acknowledgement.KNOWN)

        def settle() -> None:
            connection.forget(reply)
            self._pending.pop(reply).cancel()

        def retry(problem: str, pause: float = PAUSE_SECONDS) -> None:
            if problem != self._problem and connection.ready:
                self._problem = problem
                _log.warning("events are not carried for the moment: %s", problem)
            loop.call_later(pause, self.publish, subject, id_, make, done, attempt + 1)

        def give_up() -> None:
            settle()
            retry(f"no answer within {wait:g} s", pause=0.0)

        wait = min(ACK_SECONDS, FIRST_ACK_SECONDS * 2 ** min(attempt, 10))
        reply = connection.expect(take)
        self._pending[reply] = loop.call_later(wait, give_up)
        try:
            connection.send(subject, make(), reply, _headers(subject, id_))
        except (BusError, BadMessage) as error:
            settle()
            retry(str(error))

    def end(self) -> None:
        """Publish nothing any more."""
        self._ended = True
        for reply, timer in self._pending.items():
            timer.cancel()
            self._connection.forget(reply)
        self._pending.clear()


def _headers(subject: str, id_: str) -> bytes:
    """An id is the sender's place and a word. By the word the stream knows what is published again, by whomever."""
    stream = subjects.parcel_stream(subjects.parcel_place(subject).storage)
    sender, _, word = id_.rpartition(".")
    return (
        f"NATS/1.0\r\nNats-Expected-Stream: {stream}\r\n"
        f"Nats-Msg-Id: {word}\r\n{SENDER_HEADER}: {sender}\r\n\r\n"
    ).encode()


def _answer(data: bytes) -> tuple[str, bool]:
    """Why the stream has not taken a message, nothing if it has; and whether it had it before."""
    try:
        ack = _decode_ack(data)
    except msgspec.DecodeError:
        return _NO_ACK, False
    if ack.error is not None:
        return ack.error.description or "the stream has refused", False
    return "" if ack.seq else _NO_ACK, ack.duplicate

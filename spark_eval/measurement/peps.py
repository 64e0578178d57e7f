"""PEPs that ask in other ways than ours does: as the paper's, directly, and through an event service with filters."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from authz import Decision, Request
from bus.errors import BusError
from bus.nats import Connection, Subscription
from bus.wire import DEFAULT_DOMAIN, Mode, Questions, own_scope, pack, question, response, unpack_answers
from spark_eval.measurement.event_service import OBJECT, Publish, Subscribe, Unsubscribe, answered, encode
from spark_eval.measurement.frames import FrameLink, answer_calls, dial, port_of
from spark_eval.measurement.replica_service import COUNTS, DIRECT, MARK

DEADLINE = 10.0
"""Seconds: far more than any answer takes, so that nothing is given up."""
AGAIN = 2.0
"""Seconds after which who got no answer over NATS asks again: a busy server may have dropped the connection."""

Ask: TypeAlias = Callable[[Request], Awaitable[Decision | None]]
"""Gives None if nobody answers."""


def packed(request: Request) -> bytes:
    return pack(Questions([request], DEADLINE))


def first_answer(payload: bytes) -> Decision | None:
    return unpack_answers(payload).in_order()[0]


async def within(answer: asyncio.Future[Decision], seconds: float) -> Decision | None:
    """The answer, or None if there is none in time."""
    await asyncio.wait([answer], timeout=seconds)
    return answer.result() if answer.done() else None


async def ask_barely(bus: Connection, request: Request) -> Decision | None:
    """Ask over NATS on the request's own subject, and wait for the first answer."""
    try:
        payload = await bus.ask(
            question(Mode.ALL, own_scope(DEFAULT_DOMAIN, request)), packed(request), DEADLINE
        )
    except BusError:
        return None
    return first_answer(payload)


class SubscribingPep:
    """Asks as the paper's PEP does: it subscribes to the response, then publishes the request."""

    def __init__(self, bus: Connection) -> None:
        self._bus = bus
        self._name = secrets.token_hex(8)
        self._subscriptions: list[Subscription] = []

    async def check(self, request: Request) -> Decision | None:
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

        def take(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
            decision = first_answer(payload)
            if decision is not None and not answer.done():
                answer.set_result(decision)

        reply = response(self._name, len(self._subscriptions))
        self._subscriptions.append(await self._bus.listen(reply, take))
        asked = packed(request)
        for _ in range(int(DEADLINE / AGAIN)):
            await self._bus.wait_ready(DEADLINE)
            self._bus.send(question(Mode.ALL, own_scope(DEFAULT_DOMAIN, request)), asked, reply)
            decision = await within(answer, AGAIN)
            if decision is not None:
                return decision
        return None

    async def unsubscribe(self) -> None:
        """Drop the interest in the last response."""
        await self._bus.cancel(self._subscriptions[-1:])


class DirectPep:
    """Asks one PDP over a TCP connection of its own: point to point, with nothing in between."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._open: dict[bytes, asyncio.Future[bytes]] = {}
        self._link: FrameLink | None = None

    @classmethod
    async def connect(cls, address: str) -> DirectPep:
        pep, (host, _, port) = cls(), address.partition(":")
        pep._link = await dial(host, int(port), lambda link, message: pep.take(message))
        return pep

    def take(self, message: bytes) -> None:
        answer = self._open.pop(message[:MARK], None)
        if answer is not None and not answer.done():
            answer.set_result(message[MARK:])

    def expect(self) -> tuple[bytes, asyncio.Future[bytes]]:
        """What marks the next question, and what its answer will be."""
        mark = next(self._numbers).to_bytes(MARK)
        self._open[mark] = answer = asyncio.get_running_loop().create_future()
        return mark, answer

    async def check(self, request: Request, seconds: float = DEADLINE) -> Decision | None:
        payload = await self._ask(packed(request), seconds)
        return None if payload is None else first_answer(payload)

    async def counts(self) -> dict[str, int]:
        """How many questions of each run the PDP was given over NATS."""
        payload = await self._ask(COUNTS, DEADLINE)
        return {} if payload is None else msgspec.json.decode(payload, type=dict[str, int])

    async def _ask(self, payload: bytes, seconds: float) -> bytes | None:
        assert self._link is not None
        mark, answer = self.expect()
        self._link.send(mark + payload)
        await asyncio.wait([answer], timeout=seconds)
        self._open.pop(mark, None)
        return answer.result() if answer.done() else None

    def close(self) -> None:
        if self._link is not None:
            self._link.close()


class DirectReplyPep(DirectPep):
    """Asks over NATS and is answered over TCP: the event service finds the PDP, and the reply bypasses it."""

    def __init__(self) -> None:
        super().__init__()
        self._bus: Connection | None = None
        self._server: asyncio.Server | None = None

    @classmethod
    async def listen(cls, bus: Connection) -> DirectReplyPep:
        pep = cls()
        pep._bus = bus
        pep._server = await answer_calls("127.0.0.1", lambda link, message: pep.take(message))
        return pep

    async def check(self, request: Request, seconds: float = DEADLINE) -> Decision | None:
        assert self._bus is not None
        assert self._server is not None
        mark, answer = self.expect()
        back = f"{DIRECT}127-0-0-1.{port_of(self._server)}.{int.from_bytes(mark)}"
        self._bus.send(question(Mode.ALL, own_scope(DEFAULT_DOMAIN, request)), packed(request), back)
        await asyncio.wait([answer], timeout=seconds)
        return first_answer(answer.result()) if answer.done() else None

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


class ContentPep:
    """Asks through an event service with filters: it subscribes to the response, then publishes the request."""

    def __init__(self) -> None:
        self._link: FrameLink | None = None
        self._answer: asyncio.Future[Decision] | None = None
        self._asked = 0

    @classmethod
    async def connect(cls, address: str) -> ContentPep:
        pep, (host, _, port) = cls(), address.partition(":")
        pep._link = await dial(host, int(port), pep._take)
        return pep

    def _take(self, link: FrameLink, payload: bytes) -> None:
        decision = first_answer(payload)
        if decision is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(decision)

    async def check(self, request: Request) -> Decision | None:
        assert self._link is not None
        names = {"subject": request.subject.id, "object": request.object.id, "action": request.action.id}
        self._answer = asyncio.get_running_loop().create_future()
        self._asked += 1
        self._link.send(encode(Subscribe(self._asked, answered(names))))
        self._link.send(encode(Publish({OBJECT: request.object.id}, packed(request))))
        return await within(self._answer, DEADLINE)

    async def unsubscribe(self) -> None:
        """Drop the interest in the last response."""
        assert self._link is not None
        self._link.send(encode(Unsubscribe(self._asked)))

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

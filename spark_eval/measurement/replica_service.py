"""A PDP for experiments, as a process of its own: the real replica and engine, with failures on schedule.

It reads its task from standard input, one line of JSON, says that it is ready, and serves until its input ends.
Requests say in their context which run they belong to and which number they have there; those in a failure are
ignored, as the paper's PDPs ignore them: to the PEP the replica is silent. Besides NATS it serves direct TCP
connections, which the point-to-point baseline uses, by the same engine and the same schedule.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from bus.errors import BadMessage
from bus.nats import Connection, FaultyConnection
from bus.runtime import run_fast
from bus.wire import Answers, Mode, Scope, pack, subjects, unpack_questions
from pdp.engine import Engine
from pdp.oasis import Domains, RoleSource
from pdp.oasis import parse as parse_rules
from pdp.replica import Replica
from spark_eval.measurement.event_service import serve_events
from spark_eval.measurement.frames import FrameLink, answer_calls, dial, port_of

RUN, NUMBER = "run", "number"
"""What the context of a request calls its run and its number."""
MARK = 8
"""Bytes before each message over TCP: which question it is, or answers."""
DIRECT = "direct."
"""How a reply subject begins that names a TCP address: host, port and mark follow."""
COUNTS = b"counts"
"""Asked over TCP: how many questions of each run were delivered."""


class Kind(enum.StrEnum):
    """By which way a PDP is asked, and answers."""

    REPLICA = "replica"
    """Over NATS, and over TCP for those who connect."""
    DIRECT_REPLY = "direct-reply"
    """Over NATS; it answers over TCP if the reply subject names an address."""
    CONTENT = "content"
    """Through an event service that matches filters."""


class ReplicaTask(msgspec.Struct, frozen=True):
    """What a PDP is to do. `failures` are half-open spans of request numbers, by run and in order."""

    url: str
    scopes: list[str]
    policies: str
    """OASIS rules."""
    failures: dict[str, list[tuple[int, int]]] = {}
    kind: Kind = Kind.REPLICA
    host: str = "127.0.0.1"
    """Where it listens for TCP connections."""


class Schedule:
    """When this PDP fails, and what was delivered to it."""

    def __init__(self, failures: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        self._starts = {run: [start for start, _ in spans] for run, spans in failures.items()}
        self._ends = {run: [end for _, end in spans] for run, spans in failures.items()}
        self.delivered: Counter[str] = Counter()
        """Questions that came over NATS, by run."""

    def fails(self, run: object, number: object) -> bool:
        """Whether the request with this number falls into a failure."""
        if not (isinstance(run, str) and isinstance(number, int) and run in self._starts):
            return False
        place = bisect_right(self._starts[run], number)
        return place > 0 and number < self._ends[run][place - 1]

    def loses(self, payload: bytes) -> bool:
        """Whether a message holds a question that falls into a failure. Other messages are never lost."""
        if not self._starts:
            return False
        try:
            requests = unpack_questions(payload).requests
        except BadMessage:
            return False
        return any(self.fails(each.context.get(RUN), each.context.get(NUMBER)) for each in requests)

    def loses_delivered(self, payload: bytes) -> bool:
        """The same of a message that came over NATS: what it asks is counted."""
        with contextlib.suppress(BadMessage):
            requests = unpack_questions(payload).requests
            self.delivered.update(str(each.context.get(RUN)) for each in requests)
        return self.loses(payload)


def role_engine(policies: str) -> Engine:
    """The engine over OASIS rules, as PDPs have it."""
    return Engine([RoleSource(Domains([parse_rules(policies)]).everything())])


def answers_to(engine: Engine, payload: bytes) -> bytes:
    """The answers to packed questions, packed."""
    return pack(Answers(list(map(engine.evaluate, unpack_questions(payload).requests))))


class DirectPdp:
    """Answers those who connect by TCP, unless the schedule has it fail."""

    def __init__(self, engine: Engine, schedule: Schedule) -> None:
        self._engine = engine
        self._schedule = schedule

    def take(self, link: FrameLink, message: bytes) -> None:
        mark, payload = message[:MARK], message[MARK:]
        if payload == COUNTS:
            link.send(mark + json.dumps(self._schedule.delivered).encode())
        elif not self._schedule.loses(payload):
            link.send(mark + answers_to(self._engine, payload))


async def serve_replica(task: ReplicaTask, stack: contextlib.AsyncExitStack) -> str:
    """Serve over NATS and TCP; gives the TCP address."""
    engine, schedule = role_engine(task.policies), Schedule(task.failures)
    loses = schedule.loses_delivered if task.failures else schedule.loses
    bus = await stack.enter_async_context(FaultyConnection(task.url, loses, name="experiment-pdp"))
    await stack.enter_async_context(Replica(bus, engine, map(Scope.parse, task.scopes)))
    server = await answer_calls(task.host, DirectPdp(engine, schedule).take)
    stack.callback(server.close)
    return f"{task.host}:{port_of(server)}"


async def serve_direct_reply(task: ReplicaTask, stack: contextlib.AsyncExitStack) -> str:
    """Serve over NATS; answer over TCP, on a connection that stays."""
    engine = role_engine(task.policies)
    bus = await stack.enter_async_context(Connection(task.url, name="experiment-pdp"))
    links: dict[tuple[str, int], asyncio.Future[FrameLink]] = {}

    async def reply(to: tuple[str, int], message: bytes) -> None:
        if to not in links:
            links[to] = asyncio.ensure_future(dial(*to, lambda link, data: None))
        (await links[to]).send(message)

    tasks: set[asyncio.Task[None]] = set()

    def take(subject: str, back: str, payload: bytes, headers: bytes) -> None:
        if not back.startswith(DIRECT):
            bus.send(back, answers_to(engine, payload))
            return
        _, host, port, mark = back.split(".")
        message = int(mark).to_bytes(MARK) + answers_to(engine, payload)
        tasks.add(asyncio.ensure_future(reply((host.replace("-", "."), int(port)), message)))
        tasks.difference_update([each for each in tasks if each.done()])

    for scope in map(Scope.parse, task.scopes):
        await bus.listen(subjects.interest(Mode.ALL, scope), take)
    return task.url


async def serve_content(task: ReplicaTask, stack: contextlib.AsyncExitStack) -> str:
    """Serve through an event service in a process of its own, at the address in `url`."""
    await serve_events(role_engine(task.policies), task.url, [each.partition(":")[2] for each in task.scopes])
    return task.url


SERVE = {
    Kind.REPLICA: serve_replica,
    Kind.DIRECT_REPLY: serve_direct_reply,
    Kind.CONTENT: serve_content,
}


async def serve() -> None:
    commands = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    task = msgspec.json.decode(await commands.readline(), type=ReplicaTask)
    async with contextlib.AsyncExitStack() as stack:
        address = await SERVE[task.kind](task, stack)
        print(json.dumps({"url": address}, indent=2), flush=True)
        await commands.read()


def main() -> None:
    run_fast(serve())

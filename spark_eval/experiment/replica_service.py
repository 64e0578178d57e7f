"""A PDP replica for experiments, as a process of its own: the real replica and engine, with failures on schedule.

It reads its task from standard input, one line of JSON, says that it is ready, and serves until its input ends.
Requests say in their context which run they belong to and which number they have there; those in a failure are
ignored, as the paper's PDPs ignore them: to the PEP the replica is silent.
"""

from __future__ import annotations

import asyncio
import json
import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import msgspec

from authz import Basis, Decision, Request
from bus.errors import BadMessage
from bus.nats import FaultyConnection
from bus.runtime import run_fast
from bus.wire import Scope, unpack_questions
from pdp.abac import AbacSource, Algorithm, read_policies
from pdp.engine import Engine
from pdp.replica import Replica

RUN, NUMBER = "run", "number"
"""What the context of a request calls its run and its number."""


class ReplicaTask(msgspec.Struct, frozen=True):
    """What a replica is to do. `failures` are half-open spans of request numbers, by run and in order."""

    url: str
    scopes: list[str]
    policies: str
    failures: dict[str, list[tuple[int, int]]] = {}


class Schedule:
    """When this replica fails."""

    def __init__(self, failures: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        self._starts = {run: [start for start, _ in spans] for run, spans in failures.items()}
        self._ends = {run: [end for _, end in spans] for run, spans in failures.items()}

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


class RoleEngine:
    """An engine over policies in which, as the experiment makes them, roles alone decide; it says so."""

    def __init__(self, policies: str) -> None:
        self._engine = Engine([AbacSource(read_policies(policies), Algorithm.DENY_OVERRIDES)])

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        decisions = await self._engine.decide_many(requests)
        return [msgspec.structs.replace(decision, basis=Basis.ROLES) for decision in decisions]


async def serve() -> None:
    commands = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    task = msgspec.json.decode(await commands.readline(), type=ReplicaTask)
    connection = FaultyConnection(task.url, Schedule(task.failures).loses, name="experiment-pdp")
    scopes = map(Scope.parse, task.scopes)
    async with connection as bus, Replica(bus, RoleEngine(task.policies), scopes):
        print(json.dumps({"url": task.url}, indent=2), flush=True)
        await commands.read()


def main() -> None:
    run_fast(serve())

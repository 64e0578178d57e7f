"""A small fabric for the length of an experiment: a NATS server and PDP replicas, each a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from authz import Entity, Request
from bus.server import NatsServer
from spark_eval.errors import EvaluationError
from spark_eval.experiment.cell import Population
from spark_eval.experiment.replica_service import ReplicaTask
from spark_eval.experiment.world import Flags

START_SECONDS = 60.0
STOP_SECONDS = 10.0
ACTION = "read"


class ReplicaFailed(EvaluationError):
    """A replica process did not become ready."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"a replica of the experiment did not start: {problem or 'it said nothing'}")
        self.problem = problem


@contextlib.asynccontextmanager
async def run_fabric(tasks: Iterable[ReplicaTask]) -> AsyncIterator[str]:
    """Run a server and a replica for each task; gives the server's URL, which the tasks need not know."""
    async with NatsServer() as server, contextlib.AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(start_replica(msgspec.structs.replace(task, url=server.url)))
            for task in tasks
        ]
        await asyncio.gather(*map(wait_ready, replicas))
        yield server.url
        for replica in replicas:
            _end_input(replica)  # all at once: they take their time to end


@contextlib.asynccontextmanager
async def start_replica(task: ReplicaTask) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a replica process, which ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "spark_eval.experiment.replica_service",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin
    try:
        process.stdin.write(msgspec.json.encode(task) + b"\n")
        yield process
    finally:
        await _stop(process)


async def wait_ready(replica: asyncio.subprocess.Process) -> None:
    """Wait until the replica serves; raises ReplicaFailed with its last words if it does not."""
    assert replica.stdout
    try:
        line = await asyncio.wait_for(replica.stdout.readline(), START_SECONDS)
    except TimeoutError:
        raise ReplicaFailed(f"it was not ready after {START_SECONDS:g} s") from None
    if line != b"ready\n":
        raise ReplicaFailed(await _last_words(replica))


def object_name(number: int) -> str:
    return f"/objects/{number}"


def make_request(population: Population, subject: int, thing: int, context: dict[str, object]) -> Request:
    """A subject with its one role asks to read an object."""
    asker = Entity(f"subject-{subject}", {"roles": [f"role-{subject % population.roles}"]})
    return Request.of(asker, object_name(thing), ACTION, context)


def role_policies(grants: Flags) -> str:
    """The policies of every PDP: what each role may read, if it may read anything."""
    return json.dumps(
        [
            _role_policy(role, granted.nonzero()[0].tolist())
            for role, granted in enumerate(grants)
            if granted.any()
        ]
    )


def _role_policy(role: int, objects: Sequence[int]) -> dict[str, object]:
    return {
        "uid": f"role-{role}",
        "effect": "allow",
        "targets": {"resource_id": [object_name(each) for each in objects], "action_id": ACTION},
        "rules": {"subject": {"$.roles": {"condition": "AnyIn", "values": [f"role-{role}"]}}},
    }


async def _last_words(process: asyncio.subprocess.Process) -> str:
    assert process.stderr
    lines = (await process.stderr.read()).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _end_input(process: asyncio.subprocess.Process) -> None:
    assert process.stdin
    process.stdin.close()


async def _stop(process: asyncio.subprocess.Process) -> None:
    _end_input(process)
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()

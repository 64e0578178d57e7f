"""A small fabric for the length of an experiment: a NATS server and PDP replicas, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from authz import Entity, Request
from bus.runtime import ServingProcess, all_or_none
from bus.server import NatsServer
from spark_eval.experiment.cell import Population
from spark_eval.experiment.replica_service import ReplicaTask
from spark_eval.experiment.sampling import Flags

START_SECONDS = 60.0
"""How long a replica that is starting may say nothing."""
ACTION = "read"
_REPLICA = (sys.executable, "-c", "from spark_eval.experiment.replica_service import main; main()")


@contextlib.asynccontextmanager
async def run_fabric(tasks: Iterable[ReplicaTask]) -> AsyncIterator[str]:
    """Run a server and a replica for each task; gives the server's URL, which the tasks need not know."""
    async with NatsServer() as server, contextlib.AsyncExitStack() as stack:
        told = [msgspec.structs.replace(task, url=server.url) for task in tasks]
        await all_or_none(stack.enter_async_context(replica(task)) for task in told)
        yield server.url


@contextlib.asynccontextmanager
async def replica(task: ReplicaTask) -> AsyncIterator[ServingProcess]:
    """A replica process for the length of a block. Raises ProcessFailed."""
    running = await ServingProcess.run(
        "experiment-pdp", _REPLICA, seconds=START_SECONDS, line=msgspec.json.encode(task)
    )
    try:
        yield running
    finally:
        await running.stop()


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

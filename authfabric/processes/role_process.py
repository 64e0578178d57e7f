"""One role service process: everything that `authfabric roles serve` runs, put together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass, field
from pathlib import Path

from authfabric.processes.vitals import process_vitals
from authfabric.terminal import HealthAddress, err, print_json, printable
from bus.nats import connect
from bus.services import service_name
from bus.wire import without_secrets
from pdp.bundle import PolicySet, read_folder
from pdp.replica import Following, PolicyFollower, PolicyMetrics
from pdp.sessions import RoleService, RoleServing


@dataclass(frozen=True, slots=True)
class RoleProcess:
    """What a role service process is told to do."""

    url: str
    name: str
    policies: Path | Following
    """A folder to go by, or whose releases to follow."""
    serving: RoleServing
    json: bool = False
    health: HealthAddress = field(default_factory=lambda: HealthAddress("127.0.0.1", 0))
    """Where health and metrics are served."""


async def serve_roles(setup: RoleProcess) -> None:
    """Keep sessions until a signal ends it."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with process_vitals(setup.health) as vitals, contextlib.AsyncExitStack() as stack:
        bus = await stack.enter_async_context(connect(setup.url, name=setup.name))
        policies = PolicySet.read(read_folder(setup.policies)) if isinstance(setup.policies, Path) else None
        follower = (
            PolicyFollower[PolicySet](bus, setup.policies, lambda policies, epoch: policies)
            if isinstance(setup.policies, Following)
            else None
        )
        service = await stack.enter_async_context(RoleService(bus, setup.serving, follower))
        if policies is not None:
            service.adopt(policies, 0)
        elif follower is not None:
            await _follow(follower, service, stack)
        metrics = [] if follower is None else [PolicyMetrics(follower)]
        vitals.begin([bus], *metrics, able=lambda: service.able)
        _say_ready(setup, vitals.address)
        await stop.wait()
    err.print(f"ended: {len(service.keeper)} sessions stay open", highlight=False)


async def _follow(
    follower: PolicyFollower[PolicySet], service: RoleService, stack: contextlib.AsyncExitStack
) -> None:
    def adopt() -> None:
        if follower.made is not None:
            service.adopt(follower.made, follower.epoch)

    follower.on_change.append(adopt)
    await stack.enter_async_context(follower)
    if follower.made is None:
        err.print(f"waiting for policies: {printable(follower.problem)}", highlight=False, soft_wrap=True)


def _say_ready(setup: RoleProcess, health: str) -> None:
    service, key = service_name(setup.serving.domain), str(setup.serving.identity.public)
    url = without_secrets(setup.url)
    if setup.json:
        print_json({"ready": True, "url": url, "service": service, "key": key, "health": health})
    else:
        err.print(
            f"[green]ready[/]: keeps the role sessions of `{setup.serving.domain}` on {url}; "
            f"decision points ask `{service}`, whose key is {key}; health on {health}",
            highlight=False,
            soft_wrap=True,
        )

"""One replica process: everything that `authfabric pdp serve` runs, put together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass, field
from pathlib import Path
from time import time

from authfabric.terminal import err, print_json
from bus.connection import Connection
from bus.scopes import Scope
from pdp.bundle_store import read_folder
from pdp.entities import Entities
from pdp.explain_service import serve_explanations
from pdp.follower_service import Answering, Follower, Following
from pdp.health_server import serve_health
from pdp.point import PolicyPoint
from pdp.policy_set import PolicySet
from pdp.provider_reader import FileText, ProviderText, ServiceText
from pdp.provider_service import BusProvider
from pdp.provider_store import FileProvider
from pdp.providers import Provider, Remembering
from pdp.search_service import serve_search
from pdp.service import Replica


@dataclass(frozen=True, slots=True)
class Serving:
    """What a replica is told to do."""

    url: str
    name: str
    policies: Path | Following
    """A folder to decide by, or whose releases to follow."""
    scopes: list[Scope]
    entities: Entities = field(default_factory=Entities)
    """Known besides those of the policies."""
    providers: tuple[ProviderText, ...] = ()
    """Where attributes are looked up."""
    health_port: int = 0
    max_queue: int = 8192
    json: bool = False


async def serve(serving: Serving) -> None:
    """Answer until a signal ends it; then answer what was taken, take no more, and return."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        bus = await stack.enter_async_context(Connection(serving.url, name=serving.name))
        answering = await _answering(bus, serving, stop, stack)
        if stop.is_set():
            return
        await stack.enter_async_context(serve_explanations(bus, answering.explain, serving.scopes))
        await stack.enter_async_context(serve_search(bus, answering.search, serving.scopes))
        async with Replica(bus, answering, serving.scopes, max_queue=serving.max_queue) as replica:
            port = stack.enter_context(serve_health(replica, serving.health_port))
            _say_ready(serving, replica, port)
            await stop.wait()
            err.print(f"draining: {replica.queued} questions left", highlight=False)
        err.print(f"ended: {replica.answered} questions answered", highlight=False)


async def _answering(
    bus: Connection, serving: Serving, stop: asyncio.Event, stack: contextlib.AsyncExitStack
) -> Answering:
    """What decides, once there is something to decide by, or nothing to wait for any more."""

    providers = [_provider(bus, each) for each in serving.providers]

    def build(policies: PolicySet, epoch: int) -> Answering:
        return PolicyPoint(policies, epoch, providers=providers, entities=serving.entities)

    if isinstance(serving.policies, Path):
        return build(PolicySet.read(read_folder(serving.policies)), 0)
    follower = await stack.enter_async_context(Follower(bus, serving.policies, build))
    if not follower.ready.is_set():
        err.print(f"waiting for policies: {follower.problem}", highlight=False)
        waits = [asyncio.create_task(each.wait()) for each in (follower.ready, stop)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
    return follower


def _provider(bus: Connection, text: ProviderText) -> Remembering:
    """A provider with its memory, which outlives the policies that use it."""
    provider: Provider
    match text.origin:
        case FileText(path):
            provider = FileProvider(path, text.provides, time, text.lifetime)
        case ServiceText(name, key):
            provider = BusProvider(bus, name, key, text.provides, time, text.timeout)
    return Remembering(provider, time, text.timeout, text.lifetime)


def _say_ready(serving: Serving, replica: Replica, port: int) -> None:
    scopes = [str(scope) for scope in replica.scopes]
    health = f"http://127.0.0.1:{port}"
    if serving.json:
        print_json({"ready": True, "url": serving.url, "serves": scopes, "health": health})
    else:
        shown = ", ".join(scopes[:5]) + (f" and {len(scopes) - 5} more" if len(scopes) > 5 else "")
        err.print(f"[green]ready[/]: serves {shown} on {serving.url}; health on {health}", highlight=False)

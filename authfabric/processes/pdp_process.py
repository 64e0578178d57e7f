"""One replica process: everything that `authfabric pdp serve` runs, put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import time

from prometheus_client.registry import Collector

from authfabric.files import DecisionRight
from authfabric.processes.memory import collect_garbage_rarely
from authfabric.terminal import HealthAddress, err, print_json, printable
from authz.authority import Statement
from bus.audit import AuditWriter, Vouched
from bus.identity import FollowedKeys
from bus.nats import Connection, connect
from bus.runtime import Collectors, in_background, serve_vitals
from bus.services import hearing_changes, tell_changed
from bus.wire import DEFAULT_DOMAIN, Scope, without_secrets
from pdp.attributes import (
    BusProvider,
    CachingProvider,
    FileProvider,
    FileText,
    Provider,
    ProviderText,
    ServiceText,
)
from pdp.bundle import Entities, PolicySet
from pdp.lint import examine, extremes, read_tested
from pdp.releases import logging_progress
from pdp.replica import (
    Answering,
    DecisionSigner,
    Follower,
    Following,
    PolicyMetrics,
    PolicyPoint,
    ProviderMetrics,
    Replica,
    ReplicaMetrics,
    ReplicaVitals,
    Shadow,
    ShadowMetrics,
    SignerMetrics,
    alarm_on,
    serve_explanations,
    serve_scopes,
    serve_search,
)
from pep.auditing import auditing

_log = logging.getLogger("authfabric.pdp")

AUDIT_SECONDS = 2.0
"""How often a replica looks whether there is an audit stream by now. What it decides in between is signed then."""
SWITCH_SECONDS = 0.0005
"""Longest time for which a thread that compiles policies keeps the one that answers from the interpreter."""


@dataclass(frozen=True, slots=True)
class PdpProcess:
    """What a replica is told to do."""

    url: str
    name: str
    policies: Path | Following
    """A folder to decide by, held to what a push is held to, or whose releases to follow."""
    scopes: list[Scope]
    entities: Entities = field(default_factory=Entities)
    """Known besides those of the policies."""
    providers: tuple[ProviderText, ...] = ()
    """Where attributes are looked up."""
    shadow: float = 0.0
    """The share of requests that is decided a second time, to compare."""
    domain: str = DEFAULT_DOMAIN
    held: DecisionRight | None = None
    """By what right it answers; without one its answers are not authenticated."""
    audit: bool | None = None
    """Whether what it decides is signed and audited; None: if there is an audit stream."""
    health: HealthAddress = field(default_factory=lambda: HealthAddress("127.0.0.1", 0))
    """Where health and metrics are served."""
    max_queue: int = 8192
    json: bool = False


async def serve_pdp(serving: PdpProcess) -> None:
    """Answer until a signal ends it; then answer what was taken, take no more, and return."""
    sys.setswitchinterval(SWITCH_SECONDS)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        vitals, collectors = ReplicaVitals(), Collectors()
        asked = serving.health
        health = serve_vitals(vitals, [collectors], asked.port, asked.host, asked.tls)
        port = stack.enter_context(
            health
        )  # from the first moment, also while there is no server or no release
        bus = await stack.enter_async_context(connect(serving.url, name=serving.name))
        parts = await _parts(bus, serving, stack)
        collect_garbage_rarely()
        answering = await _answering(bus, serving, parts, stack)
        collectors.add(*parts.metrics(answering))
        if isinstance(answering, Follower):
            await _wait_for_policies(answering, stop)
        if stop.is_set():
            return
        authority = serving.held.authority if serving.held is not None else None
        await stack.enter_async_context(serve_explanations(bus, answering.explain, serving.scopes, authority))
        await stack.enter_async_context(serve_search(bus, answering.search, serving.scopes, authority))
        await stack.enter_async_context(serve_scopes(bus, answering.scope, serving.scopes, authority))
        async with Replica(
            bus,
            answering,
            serving.scopes,
            max_queue=serving.max_queue,
            authority=authority,
            observe=None if parts.signer is None else parts.signer.observe,
            able=(lambda: answering.able) if isinstance(answering, Follower) else None,
        ) as replica:
            if isinstance(answering, Follower):
                answering.load = partial(_load, replica)
                answering.latencies = lambda: tuple(replica.latencies.counts)
            vitals.replica = replica
            collectors.add(ReplicaMetrics(replica))
            _say_ready(serving, replica, port)
            await stop.wait()
            err.print(f"draining: {replica.queued} questions left", highlight=False)
        err.print(f"ended: {replica.answered} questions answered", highlight=False)


def _load(replica: Replica) -> dict[str, float]:
    """What `authfabric status` and the console tell of a replica."""
    counts = {"decisions": replica.answered, "queue": replica.queued, "shed": replica.shed}
    times = {f"p{share}_ms": 1000 * replica.latencies.quantile(share / 100) for share in (50, 99)}
    return {name: float(count) for name, count in counts.items()} | times


@dataclass(frozen=True, slots=True)
class _Parts:
    """What outlives the policies in force."""

    providers: list[CachingProvider]
    shadow: Shadow | None
    signer: DecisionSigner | None

    def point(self, policies: PolicySet, epoch: int, entities: Entities) -> PolicyPoint:
        observe = self.shadow.watch(policies) if self.shadow is not None else None
        return PolicyPoint(policies, epoch, providers=self.providers, entities=entities, observe=observe)

    def metrics(self, answering: Answering) -> Iterator[Collector]:
        if isinstance(answering, Follower):
            yield PolicyMetrics(answering)
        if self.providers:
            yield ProviderMetrics(self.providers)
        if self.shadow is not None:
            yield ShadowMetrics(self.shadow)
        if self.signer is not None:
            yield SignerMetrics(self.signer)


async def _parts(bus: Connection, serving: PdpProcess, stack: contextlib.AsyncExitStack) -> _Parts:
    shadow: Shadow | None = None
    if serving.shadow:
        alarm = alarm_on(bus, serving.domain, serving.name)
        shadow = await stack.enter_async_context(Shadow(serving.shadow, alarm))
    providers = [await _provider(bus, each, serving.domain, stack) for each in serving.providers]
    return _Parts(providers, shadow, await _signer(bus, serving, stack))


async def _signer(
    bus: Connection, serving: PdpProcess, stack: contextlib.AsyncExitStack
) -> DecisionSigner | None:
    """What signs decisions, for those who would learn from them and for the audit."""
    if serving.held is None:
        err.print("answers are not authenticated: PEPs that trust somebody refuse them", highlight=False)
        return None
    authority, enter = serving.held.authority, stack.enter_async_context
    in_background(stack, serving.held.keep_renewed)
    signer = DecisionSigner(bus, serving.domain, authority.identity, later=serving.audit is not False)

    def begin(writer: AuditWriter) -> None:
        def keep(statement: Statement, leaves: tuple[bytes, ...]) -> None:
            writer.vouch(Vouched(statement, leaves, authority.introduction))

        signer.keep(keep)

    await enter(auditing(bus, serving.domain, serving.name, serving.audit, begin, AUDIT_SECONDS))
    return await enter(signer)


async def _answering(
    bus: Connection, serving: PdpProcess, parts: _Parts, stack: contextlib.AsyncExitStack
) -> Answering:
    def build(policies: PolicySet, epoch: int) -> Answering:
        return parts.point(policies, epoch, serving.entities)

    if isinstance(serving.policies, Path):
        return await asyncio.to_thread(_compile, serving.policies, build)
    follower = await stack.enter_async_context(Follower(bus, serving.policies, build))
    if isinstance(serving.policies.trusted, FollowedKeys):
        in_background(stack, partial(serving.policies.trusted.follow, follower.feed.verify_anew))
    return follower


def _compile(folder: Path, build: Callable[[PolicySet, int], Answering]) -> Answering:
    with logging_progress(f"compiling the policies in `{folder}`"):
        bundle = read_tested(folder)
        policies = PolicySet.read(bundle)
        for each in extremes(examine(bundle, policies)):
            _log.warning("%s", each)
        return build(policies, 0)


async def _wait_for_policies(follower: Follower, stop: asyncio.Event) -> None:
    """Return when there is something to decide by, or nothing to wait for any more."""
    if follower.ready.is_set():
        return
    err.print(f"waiting for policies: {printable(follower.problem)}", highlight=False)
    waits = [asyncio.create_task(each.wait()) for each in (follower.ready, stop)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()


async def _provider(
    bus: Connection, text: ProviderText, domain: str, stack: contextlib.AsyncExitStack
) -> CachingProvider:
    """A provider with its memory, which outlives the policies that use it, and is cut short by word of changes."""
    provider: Provider
    match text.origin:
        case FileText(path):
            provider = FileProvider(path, text.provides, time, text.lifetime)
            await provider.load()
        case ServiceText(name, key, named):
            provider = BusProvider(bus, name, key, text.provides, time, text.timeout, named or domain)
    remembering = CachingProvider(provider, time, text.timeout, text.lifetime, text.under)
    if isinstance(text.origin, ServiceText):
        origin = text.origin

        def forget(root: str, ids: Sequence[str]) -> None:
            remembering.forget(root, ids)
            tell_changed(bus, domain, root, ids)

        hearing = hearing_changes(bus, origin.name, origin.key, forget, origin.domain or domain)
        await stack.enter_async_context(hearing)
    return remembering


def _say_ready(serving: PdpProcess, replica: Replica, port: int) -> None:
    scopes = [str(scope) for scope in replica.scopes]
    health, url = serving.health.at(port), without_secrets(serving.url)
    if serving.json:
        print_json({"ready": True, "url": url, "serves": scopes, "health": health})
    else:
        shown = ", ".join(scopes[:5]) + (f" and {len(scopes) - 5} more" if len(scopes) > 5 else "")
        err.print(
            f"[green]ready[/]: serves {shown} on {url}; health on {health}",
            highlight=False,
            soft_wrap=True,
        )

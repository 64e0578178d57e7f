"""Every process that serves answers for its health, and has metrics, at an address that it is told."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import httpx
import pytest
import typer.main

from authfabric.chaos.testbed.proxy import link
from authfabric.command_table import COMMANDS
from authfabric.processes.launcher import ReplicaProcess
from authfabric.processes.local_domain import LocalDomain
from bus import NatsServer
from bus.identity.keystore import create_key
from bus.server.nats_server import free_ports
from tests.authfabric.commands.events.test_event_bridge import profile
from tests.authfabric.processes.test_pdp_health import answer
from tests.pubsub_core.town import NEWS, Town, town

PAGES = "/healthz", "/readyz", "/metrics"


@dataclass
class Place:
    """A town, and what each process of it is told."""

    town: Town
    folder: Path
    type: str

    @property
    def key(self) -> str:
        path = self.folder / "town.key"
        if not path.exists():
            create_key(path, self.town.key, None)
        return str(path)

    @property
    def following(self) -> list[str]:
        return ["--domain", self.town.domain, "--trust", str(self.town.key.public)]


SERVING: dict[str, tuple[Callable[[Place], list[str]], str]] = {
    "pdp serve": (
        lambda place: [*place.following, "--cache", str(place.folder / "cache")],
        "authfabric_pdp_decisions_total",
    ),
    "sdp serve": (lambda place: [*place.following, "--as", "host-1"], "authfabric_pep_open"),
    "gateway serve": (
        lambda place: [*place.following, "--listen", "127.0.0.1:0", "--anonymous"],
        "authfabric_pep_open",
    ),
    "console serve": (
        lambda place: [*place.following, "--listen", "127.0.0.1:0", "--read-only"],
        "authfabric_pep_open",
    ),
    "roles serve": (lambda place: [*place.following, "--key", place.key], "authfabric_policy_epoch"),
    "broker serve": (
        lambda place: [
            *place.following,
            "--key",
            place.key,
            "--clients",
            f"{place.town.domain}={place.town.key.public}",
        ],
        "authfabric_broker_published_total",
    ),
    "keys serve": (lambda place: [place.type, "--key", place.key], "authfabric_keys_answered_total"),
    "event bridge": (
        lambda place: [
            "plain.>",
            place.type,
            "--source",
            place.town.server.url,
            "--as",
            str(profile(place.town, place.folder / "bridge.json")),
        ],
        "authfabric_bridge_published_total",
    ),
    "domain serve": (lambda place: [], "authfabric_access_admitted_total"),
}
"""What each is told besides where the server is and where to listen; and a metric of its own."""


@contextlib.asynccontextmanager
async def told(command: str, folder: Path) -> AsyncIterator[tuple[str, list[str]]]:
    """Where the server of a process is, and what to tell the process besides."""
    async with contextlib.AsyncExitStack() as stack:
        if command == "domain serve":
            local = LocalDomain.find(folder / "domain")
            server = NatsServer(jetstream=True, extra=local.configuration())
            await stack.enter_async_context(server)
            local.at_url(server.url)
            yield server.url, [str(folder / "domain")]
            return
        server = await stack.enter_async_context(NatsServer(jetstream=True))
        place = await stack.enter_async_context(town(server, folder / "town"))
        kind = await place.define("News", *NEWS)
        await place.broker("north")
        yield server.url, SERVING[command][0](Place(place, folder, kind.name))


@pytest.mark.parametrize("command", SERVING)
async def test_every_process_tells_its_health_and_that_it_has_lost_the_bus(command, tmp_path):
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    async with told(command, tmp_path) as (url, words), link(url.replace("tls:", "nats:")) as between:
        scheme, _, _ = url.partition("://")
        there = between.url.replace("nats", scheme)
        ask = [*command.split(), *words, "--url", there, "--health-listen", address]
        process = await ReplicaProcess.launch("process", ask)
        try:
            assert process.ready.health == f"http://{address}"
            async with httpx.AsyncClient(base_url=process.ready.health, timeout=20) as client:
                for page in PAGES:
                    said = await answer(client, page, 200)
                    assert page == "/metrics" or said == "ok\n"
                for metric in ("authfabric_background_failures", "authfabric_bus_", SERVING[command][1]):
                    assert f"\n{metric}" in said or f"# HELP {metric}" in said
                between.cut()
                between.reset()
                await answer(client, "/readyz", 503)
                between.mend()
                await answer(client, "/readyz", 200)
        finally:
            between.mend()
            await process.stop()


def serving_commands() -> set[str]:
    """All commands that run until they are told to end, and serve somebody."""
    found = {"event bridge"}
    for name, module in COMMANDS.items():
        app = getattr(import_module(f"authfabric.commands.{module}"), "app", None)
        if app is not None and "serve" in getattr(typer.main.get_command(app), "commands", ()):
            found.add(f"{name} serve")
    return found


def test_no_process_is_left_out():
    assert serving_commands() == set(SERVING)

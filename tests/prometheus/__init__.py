"""A real Prometheus for tests: from the system's package, which `make` fetches, or installed on the machine."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from bus.server.nats_server import free_ports
from tests.waiting import once_it_works

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "prometheus"
"""Where `python -m tests.prometheus` puts it."""
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
PACE = "1s"
"""How often values are read and rules judged."""


def find_program(name: str) -> str:
    """`prometheus` or `promtool`; skips the test where there is none."""
    own = FOLDER / "usr" / "bin" / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}: `make test` fetches it by apt-get, or install it")
    return found


def impatient(rules: Path) -> str:
    """Alert rules that fire as soon as their expression holds, whatever they wait for otherwise."""
    groups = yaml.safe_load(rules.read_text())
    for group in groups["groups"]:
        for rule in group["rules"]:
            rule["for"] = "0s"
    return yaml.safe_dump(groups)


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    client: httpx.AsyncClient

    async def query(self, expression: str) -> list[dict[str, Any]]:
        answer = await self.client.get("/api/v1/query", params={"query": expression})
        answer.raise_for_status()
        return answer.json()["data"]["result"]

    async def firing(self) -> set[str]:
        """The alerts that fire."""
        answer = await self.client.get("/api/v1/alerts")
        answer.raise_for_status()
        several = answer.json()["data"]["alerts"]
        return {each["labels"]["alertname"] for each in several if each["state"] == "firing"}

    async def has_read(self, targets: int) -> None:
        """Return when the values of all targets were read twice, so that what changes from now on is seen to."""

        async def twice() -> None:
            read = await self.query("count_over_time(up[10m]) >= 2 and up == 1")
            assert len(read) == targets

        await once_it_works(twice, AssertionError)

    async def fires(self, *alerts: str) -> None:
        """Return when these alerts fire."""

        async def all_fire() -> None:
            missing = set(alerts) - await self.firing()
            assert not missing, f"do not fire: {sorted(missing)}"

        await once_it_works(all_fire, AssertionError)


@contextlib.asynccontextmanager
async def prometheus(folder: Path, targets: Mapping[str, Sequence[str]]) -> AsyncIterator[Prometheus]:
    """One that reads these targets, by job, and judges the alert rules; when it yields, it has read them."""
    program, (port,) = find_program("prometheus"), free_ports(1)
    (folder / "rules.yaml").write_text(impatient(RULES))
    config = {
        "global": {"scrape_interval": PACE, "scrape_timeout": PACE, "evaluation_interval": PACE},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": list(several)}]}
            for job, several in targets.items()
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            running = Prometheus(client)
            await once_it_works(running.firing, httpx.HTTPError)
            await running.has_read(sum(map(len, targets.values())))
            assert not await running.firing()
            yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()

"""Machines of a fabric on the loopback interface: each runs the systemd units that its node's folder installed."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import randrange

import yaml
from typer.testing import CliRunner

from authfabric.cli import app
from bus.runtime import end_with_parent
from bus.server import free_ports


@dataclass
class Machine:
    """What one node has installed, and the processes of its units."""

    root: Path
    name: str
    services: list[str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, *services: str) -> None:
        for service in services or self.services:
            unit, _, instance = service.partition("@")
            text = (self.root / "units" / f"{unit}{'@' * bool(instance)}.service").read_text()
            text = text.replace("%i", instance).replace("%H", self.name)
            environment = {"PATH": os.environ["PATH"], "HOME": str(self.root)} | _environment(text)
            (line,) = re.findall(r"^ExecStart=(.+)$", text, flags=re.M)
            words = shlex.split(line.replace("${HEALTH}", environment.get("HEALTH", "")))
            with (self.root / f"{service}.log").open("ab") as log:
                self.running[service] = subprocess.Popen(
                    words, env=environment, stdout=log, stderr=log, preexec_fn=end_with_parent
                )

    def revive(self) -> None:
        """Start anew what has ended by itself, as `Restart=always` does."""
        for service, process in list(self.running.items()):
            if process.poll() is not None:
                self.start(service)

    def stop(self, *services: str, sig: signal.Signals = signal.SIGTERM) -> None:
        ending = [self.running.pop(each) for each in services or list(self.running)]
        for process in ending:
            process.send_signal(sig)
        for process in ending:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log(self, service: str) -> str:
        return (self.root / f"{service}.log").read_text()


def _environment(unit: str) -> dict[str, str]:
    """What systemd puts into a unit's environment."""
    given = [word for line in re.findall(r"^Environment=(.+)$", unit, flags=re.M) for word in line.split()]
    for file in re.findall(r"^EnvironmentFile=-?(.+)$", unit, flags=re.M):
        given += Path(file).read_text().split()
    return dict(each.split("=", 1) for each in given)


@dataclass
class Machines:
    """A domain's folder, and a machine for each of its nodes."""

    folder: Path
    machines: list[Machine]

    @property
    def operator(self) -> Path:
        return self.folder / "operator.json"

    def install(self) -> None:
        """Run on each machine what its folder says."""
        for each in self.machines:
            script = self.folder / "nodes" / each.name / "install.sh"
            subprocess.run(["sh", script], check=True, env=os.environ | {"DESTDIR": "/"})

    def start(self) -> None:
        for each in self.machines:
            each.start()

    def revive(self) -> None:
        for each in self.machines:
            each.revive()

    def stop(self) -> None:
        for each in self.machines:
            each.stop()


def command(*words: object, code: int = 0) -> str:
    """Run a command in this process; what it prints."""
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result.stdout


@contextlib.contextmanager
def machines(folder: Path, name: str = "shop", pdps: int = 1, count: int = 3) -> Iterator[Machines]:
    """So many nodes, made by `domain init --settings` and installed, not yet started."""
    port, links = free_ports(2)
    network = f"127.{randrange(1, 255)}.{randrange(255)}"  # health has the same ports everywhere
    nodes = [
        {"name": f"node{n}", "port": port, "links": links, "pdps": pdps}
        | dict.fromkeys(("host", "health"), f"{network}.{n}")
        for n in range(1, count + 1)
    ]
    root = f"{folder}/machines/{{node}}"
    places = {each: f"{root}/{each}" for each in ("config", "state", "cache", "units")}
    settings = folder / "given.yaml"
    settings.write_text(yaml.safe_dump({"nodes": nodes, "programs": sysconfig.get_path("scripts"), **places}))
    domain = folder / "domain"
    command("domain", "init", domain, "--name", name, "--settings", settings, "--unencrypted")
    services = ["authfabric-nats", "authfabric-domain", *(f"authfabric-pdp@{n}" for n in range(1, pdps + 1))]
    made = Machines(
        domain, [Machine(folder / "machines" / each["name"], each["name"], services) for each in nodes]
    )
    made.install()
    try:
        yield made
    finally:
        made.stop()

"""The processes of a run besides the servers: each is started, ended and started again by its name."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic

import msgspec

from authfabric.chaos.record import ProcessState, Recorder
from authfabric.chaos.testbed.clock import WallClock, find_library
from authfabric.chaos.testbed.cluster import Cluster
from authfabric.chaos.workload import DOMAIN, Asking, lies
from authfabric.files import write_authority
from authfabric.processes import REPLICA, SERVICE, ReplicaProcess, environment_of
from authz import Identity
from bus.identity import load_key
from bus.runtime import ProcessFailed

START_SECONDS = 120.0
"""How long a process that is starting may say nothing: it may have been started while the servers are away."""
ATTEMPTS = 20
"""How often a process is started that ends at once."""
AGAIN_SECONDS = 2.0
END_SECONDS = 90.0
"""How long a process may take to finish what it has begun."""


@dataclass(frozen=True)
class Member:
    """How a process is started."""

    command: Sequence[str]
    credentials: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Members:
    """The processes, by name."""

    cluster: Cluster
    folder: Path
    record: Recorder
    root: Identity
    """Whose releases count, and who says who may decide."""
    processes: dict[str, ReplicaProcess] = field(default_factory=dict)
    clocks: dict[str, WallClock] = field(default_factory=dict)
    """The wall clocks that can be set."""
    _members: dict[str, Member] = field(default_factory=dict)

    async def add(self, name: str, member: Member) -> None:
        self._members[name] = member
        await self.start(name)

    async def start(self, name: str) -> None:
        """Start a process, again and again if it ends at once, as what supervises processes does."""
        member = self._members[name]
        for attempt in count(1):
            try:
                self.processes[name] = await ReplicaProcess.run(
                    name,
                    member.command,
                    {**environment_of(member.credentials), **member.environment},
                    START_SECONDS,
                )
                break
            except ProcessFailed:  # the servers may be away at this moment
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)
        self.record(ProcessState(monotonic(), name, True))

    async def kill(self, name: str) -> None:
        self.record(ProcessState(monotonic(), name, False))
        await self.processes[name].kill()

    async def end(self, name: str) -> None:
        """Let it finish what it has begun, and end."""
        self.record(ProcessState(monotonic(), name, False))
        await self.processes[name].stop(END_SECONDS)

    def freeze(self, name: str) -> None:
        self.record(ProcessState(monotonic(), name, False))
        self.processes[name].freeze()

    def thaw(self, name: str) -> None:
        self.processes[name].thaw()
        self.record(ProcessState(monotonic(), name, True))

    async def stop(self) -> None:
        await asyncio.gather(*(each.stop() for each in self.processes.values()))

    def credentials(self, name: str, text: str = SERVICE, identity: Identity | None = None) -> Path:
        """A file of credentials by which its holder may do this."""
        path = self.folder / f"{name}.credentials.json"
        self.cluster.local.hand_out(path, name, text, identity)
        return path

    async def add_access(self, name: str) -> None:
        url = await self.cluster.connect(name)
        command = ["domain", "serve", str(self.cluster.local.folder.path), "--url", url]
        await self.add(name, Member(words(command)))

    async def add_pdp(self, name: str, domain: str = DOMAIN) -> None:
        url = await self.cluster.connect(name)
        command = ["pdp", "serve", "--url", url, "--name", name, "--domain", domain, "--no-audit"]
        command += ["--trust", str(self.root.public), "--cache", str(self.folder / f"{name}.releases")]
        authority = write_authority(self.folder, name, self.root)
        access = self.credentials(name, REPLICA, load_key(self.folder / f"{name}.key", str))
        environment: Mapping[str, str] = {}
        if (library := find_library()) is not None:
            self.clocks[name] = WallClock(self.folder / f"{name}.clock", library)
            environment = self.clocks[name].environment
        await self.add(name, Member(words([*command, *authority]), access, environment))

    async def add_liar(self, name: str) -> None:
        """A PDP that may speak on the bus, and that nobody has let decide: it allows everything."""
        url, policies = await self.cluster.connect(name), self.folder / f"{name}.policies"
        policies.mkdir(exist_ok=True)
        (policies / "lies.yaml").write_text(lies())
        command = ["pdp", "serve", "--url", url, "--name", name, "--domain", DOMAIN, "--no-audit"]
        authority = write_authority(self.folder, name, Identity.generate())
        identity = load_key(self.folder / f"{name}.key", str)
        command += ["--policies", str(policies), *authority]
        await self.add(name, Member(words(command), self.credentials(name, REPLICA, identity)))

    async def add_pep(self, name: str, rate: int, seed: int, *, caching: bool, audit: bool) -> None:
        url = await self.cluster.connect(name)
        record = str(self.folder / f"{name}.record")
        asking = Asking(name, url, str(self.root.public), record, rate, seed, caching, audit)
        command = [
            sys.executable,
            "-m",
            "authfabric.chaos.workload.pep_load",
            msgspec.json.encode(asking).decode(),
        ]
        await self.add(name, Member(command, self.credentials(name)))


def words(command: Sequence[str]) -> list[str]:
    """How a command of `authfabric` is started that says in JSON when it serves."""
    return [sys.executable, "-m", "authfabric", *command, "--json"]

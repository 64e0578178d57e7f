"""A whole fabric on this machine: a NATS server and PDP replicas, each a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from authfabric.keys import load_or_make
from authfabric.local_domain import REPLICA, LocalDomain
from authfabric.settings import DEFAULT_POLICIES
from authfabric.warrants import give_warrant
from authz import AuthFabricError, Identity
from bus.address import configured_url
from bus.credentials_store import VARIABLE
from bus.process import end_with_parent, signal_process
from bus.server import NatsServer

START_SECONDS = 30.0
STOP_SECONDS = 10.0


class ReplicaFailed(AuthFabricError):
    """A replica process did not become ready."""


class Ready(msgspec.Struct, frozen=True):
    """What a process says when it serves."""

    url: str = ""
    serves: list[str] = []
    health: str = ""


class ReplicaProcess:
    """One process of a fabric, such as `authfabric pdp serve`."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: IO[bytes]) -> None:
        self.name = name
        self.ready = Ready("")
        self._process = process
        self._log = log

    @property
    def log(self) -> str:
        """What it has written to its standard error so far."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    @classmethod
    async def start(
        cls,
        name: str,
        url: str,
        *,
        policies: Path | None = DEFAULT_POLICIES,
        serve: Sequence[str] = (),
        extra: Sequence[str] = (),
        credentials: Path | None = None,
    ) -> ReplicaProcess:
        """Start a replica and wait until it serves; without a folder of policies it follows the releases."""
        words = [word for scope in serve for word in ("--serve", scope)]
        words += ["--policies", str(policies)] if policies is not None else []
        command = ["pdp", "serve", "--url", url, "--name", name, *words, *extra]
        return await cls.launch(name, command, credentials)

    @classmethod
    async def launch(cls, name: str, words: Sequence[str], credentials: Path | None = None) -> ReplicaProcess:
        """Start a command that serves, and wait until it says so."""
        environment = os.environ | ({VARIABLE: str(credentials)} if credentials is not None else {})
        log = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it; a pipe that nobody reads would fill
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "authfabric", *words, "--json",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log, env=environment,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
        replica = cls(name, process, log)
        try:
            replica.ready = await asyncio.wait_for(_read_ready(process), START_SECONDS)
        except (TimeoutError, msgspec.DecodeError):
            await replica.kill()
            raise ReplicaFailed(
                f"`{name}` did not start: {replica.log.strip() or 'it said nothing'}"
            ) from None
        except BaseException:
            await replica.kill()
            raise
        return replica

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def stop(self) -> int:
        """Let it drain (SIGTERM) and wait for its end; returns its exit code."""
        if self.running:
            self.thaw()
            signal_process(self.pid, signal.SIGTERM)
        try:
            return await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            return await self.kill()

    async def kill(self) -> int:
        """End it at once (SIGKILL), as a crash would."""
        signal_process(self.pid, signal.SIGKILL)
        return await self._process.wait()

    def freeze(self) -> None:
        signal_process(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        signal_process(self.pid, signal.SIGCONT)


async def _read_ready(process: asyncio.subprocess.Process) -> Ready:
    assert process.stdout
    text = b""
    while not text.rstrip().endswith(b"\n}"):
        line = await process.stdout.readline()
        if not line:
            break
        text += line
    return msgspec.json.decode(text, type=Ready)


@dataclass
class Fabric:
    """A server and its replicas. `replicas` holds those started and not yet stopped, by name."""

    url: str
    root: Identity
    """Whose word counts: it lets the replicas decide."""
    folder: Path
    """Where the replicas' keys are."""
    policies: Path | None = DEFAULT_POLICIES
    local: LocalDomain | None = None
    """Who may connect; None if anybody may."""
    replicas: dict[str, ReplicaProcess] = field(default_factory=dict)

    async def add(self, name: str, serve: Sequence[str] = (), extra: Sequence[str] = ()) -> ReplicaProcess:
        words = [*give_warrant(self.folder, name, self.root), *extra]
        replica = await ReplicaProcess.start(
            name,
            self.url,
            policies=self.policies,
            serve=serve,
            extra=words,
            credentials=self.hand_out(name, REPLICA, load_or_make(None, self.folder / f"{name}.key")),
        )
        self.replicas[name] = replica
        return replica

    def hand_out(self, name: str, text: str, identity: Identity | None = None) -> Path | None:
        """A file of credentials by which its holder may do this; None if nobody needs any here."""
        if self.local is None:
            return None
        path = self.folder / f"{name}.credentials.json"
        self.local.hand_out(path, name, text, identity)
        return path

    async def add_all(self, names: Sequence[str]) -> None:
        """Start several at once. If one does not start, none is left starting."""
        starting = [asyncio.create_task(self.add(name)) for name in names]
        try:
            await asyncio.gather(*starting)
        finally:
            for each in starting:
                each.cancel()
            await asyncio.gather(*starting, return_exceptions=True)

    async def stop(self) -> None:
        await asyncio.gather(*(replica.stop() for replica in self.replicas.values()))


@contextlib.asynccontextmanager
async def fabric(
    replicas: int = 3,
    *,
    port: int = -1,
    policies: Path | None = DEFAULT_POLICIES,
    jetstream: Path | bool = False,
    root: Identity | None = None,
    keys: Path | None = None,
    secure: bool = False,
) -> AsyncIterator[Fabric]:
    """Run a fabric for the length of a block, on an embedded server unless AUTHFABRIC_NATS_URL names another.

    The root empowers the replicas, whose keys are kept in a folder; without them, both are made for the occasion. A
    secure fabric lets nobody connect without credentials, and encrypts every link; an external server is left as it is.
    """
    async with contextlib.AsyncExitStack() as stack:
        folder = keys or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="authfabric-")))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        url, local, root = configured_url(), None, root or Identity.generate()
        if url is None and secure:
            local = LocalDomain.find(folder / "domain")
            extra = local.configuration()
            server = NatsServer(port=port, jetstream=jetstream or True, extra=extra)
            url = (await stack.enter_async_context(server)).url
            local = local.at_url(url).trusting(root.public)
            await stack.enter_async_context(local.serving(audit=bool(jetstream)))
        elif url is None:
            url = (await stack.enter_async_context(NatsServer(port=port, jetstream=jetstream))).url
        running = Fabric(url, root, folder, policies, local)
        stack.push_async_callback(running.stop)
        await running.add_all([f"pdp-{n}" for n in range(1, replicas + 1)])
        yield running

"""A whole fabric on this machine: a NATS server and PDP replicas, each a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
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
"""How long a process that is starting may say nothing."""
STOP_SECONDS = 10.0
FIRST_PAUSE = 0.5
"""Seconds before what ended by itself is started anew, doubled with each time in a row."""
LONGEST_PAUSE = 10.0
"""Most seconds before what ended by itself is started anew; whatever ran for longer begins with the first pause."""


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
        return os.pread(self._log.fileno(), self._said, 0).decode(errors="replace")

    @property
    def _said(self) -> int:
        """How many bytes it has written to its standard error."""
        return os.fstat(self._log.fileno()).st_size

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
        command = [sys.executable, "-m", "authfabric", *words, "--json"]
        return await cls.run(name, command, credentials)

    @classmethod
    async def run(
        cls,
        name: str,
        command: Sequence[str],
        credentials: Path | None = None,
        seconds: float = START_SECONDS,
    ) -> ReplicaProcess:
        """Start a program, and wait until it says that it serves, unless it says nothing for so many seconds."""
        environment = os.environ | ({VARIABLE: str(credentials)} if credentials is not None else {})
        log = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it; a pipe that nobody reads would fill
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log, env=environment,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
        replica = cls(name, process, log)
        try:
            replica.ready = await replica._wait_ready(seconds)
        except (TimeoutError, msgspec.DecodeError):
            await replica.kill()
            raise ReplicaFailed(
                f"`{name}` did not start: {replica.log.strip() or 'it said nothing'}"
            ) from None
        except BaseException:
            await replica.kill()
            raise
        return replica

    async def _wait_ready(self, seconds: float) -> Ready:
        """What it says when it serves. Raises TimeoutError if it says nothing for so many seconds."""
        reading = asyncio.create_task(_read_ready(self._process))
        loop, said = asyncio.get_running_loop(), 0
        deadline = loop.time() + seconds
        try:
            while not reading.done():
                if self._said > said:
                    said, deadline = self._said, loop.time() + seconds
                if loop.time() > deadline:
                    raise TimeoutError
                await asyncio.wait([reading], timeout=min(1.0, seconds))
            return reading.result()
        finally:
            reading.cancel()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> str:
        """Wait for its end; returns what ended it, in words."""
        code = await self._process.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with {code}"
        *_, last = ["", *self.log.strip().splitlines()]
        return f"{how}: {last}" if last and code >= 0 else how

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
    server: NatsServer | None = None
    """The embedded server; None if another is used."""
    replicas: dict[str, ReplicaProcess] = field(default_factory=dict)

    async def keep_running(self, extra: Sequence[str], say: Callable[[str], None]) -> None:
        """Start the server, and each replica with these words, anew whenever it ends, until cancelled."""
        server = [] if self.server is None else [self._keep_server(self.server, say)]
        await asyncio.gather(*server, *(self._keep_replica(name, extra, say) for name in self.replicas))

    async def _keep_server(self, server: NatsServer, say: Callable[[str], None]) -> None:
        async def start() -> str:
            await server.start()
            return f"pid {server.pid}"

        pause = Pause()
        while True:
            pause.begin()
            await server.wait()
            await _start_anew("the NATS server", "", start, pause, say)

    async def _keep_replica(self, name: str, extra: Sequence[str], say: Callable[[str], None]) -> None:
        async def start() -> str:
            return f"pid {(await self.add(name, extra=extra)).pid}"

        pause = Pause()
        while True:
            pause.begin()
            how = await self.replicas[name].wait()
            await _start_anew(f"`{name}`", f" {how}", start, pause, say)

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


class Pause:
    """How long to wait before something is started anew."""

    def __init__(self) -> None:
        self._seconds = FIRST_PAUSE
        self._began = monotonic()

    def begin(self) -> None:
        """It runs."""
        self._began = monotonic()

    def next(self) -> float:
        """It has ended."""
        seconds = FIRST_PAUSE if monotonic() - self._began > LONGEST_PAUSE else self._seconds
        self._seconds = min(2 * seconds, LONGEST_PAUSE)
        return seconds


async def _start_anew(
    name: str, how: str, start: Callable[[], Awaitable[str]], pause: Pause, say: Callable[[str], None]
) -> None:
    """Start again what has ended, however often that fails, and say so."""
    said = f"{name} has ended{how}"
    while True:
        seconds = pause.next()
        say(f"{said}; it is started anew in {seconds:g} s")
        await asyncio.sleep(seconds)
        pause.begin()
        try:
            say(f"{name} runs again ({await start()})")
            return
        except (AuthFabricError, OSError) as error:
            said = f"{name} does not start: {error}"


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
        server: NatsServer | None = None
        if url is None and secure:
            local = LocalDomain.find(folder / "domain")
            extra = local.configuration()
            server = NatsServer(port=port, jetstream=jetstream or True, extra=extra)
            url = (await stack.enter_async_context(server)).url
            local = local.at_url(url).trusting(root.public)
            await stack.enter_async_context(local.serving(audit=bool(jetstream)))
        elif url is None:
            server = await stack.enter_async_context(NatsServer(port=port, jetstream=jetstream))
            url = server.url
        running = Fabric(url, root, folder, policies, local, server)
        stack.push_async_callback(running.stop)
        await running.add_all([f"pdp-{n}" for n in range(1, replicas + 1)])
        yield running

"""A whole fabric on this machine: a NATS server and PDP replicas, each a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from authfabric.files import DEFAULT_POLICIES, load_or_make, write_authority
from authfabric.processes.local_domain import REPLICA, LocalDomain
from authz import AuthFabricError, Identity
from bus.identity import VARIABLE
from bus.runtime import ServingProcess, all_or_none
from bus.server import DiskReserve, NatsServer
from bus.wire import configured_url

FIRST_PAUSE = 0.5
"""Seconds before what ended by itself is started anew, doubled with each time in a row."""
LONGEST_PAUSE = 10.0
"""Maximum seconds before what ended by itself is started anew; whatever ran for longer begins with the first pause."""


class ReplicaProcess(ServingProcess):
    """One process of a fabric, such as `authfabric pdp serve`."""

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
    async def launch(
        cls, name: str, words: Sequence[str], credentials: Path | None = None, log_file: Path | None = None
    ) -> ReplicaProcess:
        """Start a command that serves, and wait until it says so."""
        command = [sys.executable, "-m", "authfabric", *words, "--json"]
        return await cls.run(name, command, environment_of(credentials), log_file=log_file)


def environment_of(credentials: Path | None) -> dict[str, str]:
    """What a process must find in its environment to connect by these."""
    return {} if credentials is None else {VARIABLE: str(credentials)}


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
        if self.server is not None and self.server.store is not None:
            server.append(DiskReserve(self.server, self.server.store, say).keep())
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
        words = [*write_authority(self.folder, name, self.root), *extra]
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
        await all_or_none(self.add(name) for name in names)

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

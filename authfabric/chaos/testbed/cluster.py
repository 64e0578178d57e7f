"""Three secured NATS servers of one domain, whose links to each other and to every member can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from authfabric.chaos.record import ProcessState, Recorder
from authfabric.chaos.testbed.disk import SmallDisk
from authfabric.chaos.testbed.network import Network
from authfabric.processes import LocalDomain
from bus.server import NatsServer, free_ports

NODES = ("node1", "node2", "node3")
STORE = "64GB"
"""What the server with the small disk believes to have."""
NOWHERE = "127.0.0.1:1"
"""What servers tell each other to be their address: they are to use the links that they were given."""


@dataclass
class Cluster:
    """The servers, by name."""

    local: LocalDomain
    folder: Path
    network: Network
    record: Recorder
    servers: dict[str, NatsServer] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    """Where members connect to, without a link between."""
    disk: SmallDisk | None = None
    """The disk of the server `small`, where the system lets users mount one."""
    small: str = NODES[-1]

    async def start(self) -> None:
        clients, routes = free_ports(3), free_ports(3)
        security = self.local.folder.servers.security(self.local.domain)
        for here in NODES:
            for there, port in zip(NODES, routes, strict=True):
                if here != there:
                    await self.network.open(here, there, port)
        for node, port, route in zip(NODES, clients, routes, strict=True):
            self.ports[node] = port
            others = [self.network[node, other].port for other in NODES if other != node]
            urls = ", ".join(f'"{security.links.url(f"127.0.0.1:{each}")}"' for each in others)
            extra = (
                f"{security.configuration()}"
                f'cluster {{ name: authfabric, listen: "127.0.0.1:{route}", advertise: "{NOWHERE}",'
                f" no_advertise: true, routes: [{urls}]\n{security.links.configuration()}}}\n"
            )
            self.servers[node] = self._server(node, port, extra)
        await asyncio.gather(*(self.start_node(node) for node in NODES))

    def _server(self, node: str, port: int, extra: str) -> NatsServer:
        folder = self.folder / node
        if self.disk is None or node != self.small:
            return NatsServer(port=port, name=node, jetstream=folder, extra=extra)
        # What streams may take in the end is more than the disk has: on a real one, too, it is found out too late.
        extra += f'jetstream {{ store_dir: "{folder}", sync_interval: always, max_file_store: {STORE} }}\n'
        return NatsServer(port=port, name=node, extra=extra, prefix=self.disk.prefix)

    def store(self, node: str) -> Path:
        """Where a server keeps its streams."""
        return self.disk.path if self.disk is not None and node == self.small else self.folder / node

    def pick(self, choice: int) -> str:
        """One of the servers."""
        return NODES[choice % len(NODES)]

    async def connect(self, member: str) -> str:
        """Links by which a member reaches the servers; returns them as a URL."""
        for node in NODES:
            await self.network.open(member, node, self.ports[node])
        return self.network.urls(member, NODES)

    async def start_node(self, node: str) -> None:
        await self.servers[node].start()
        self.record(ProcessState(monotonic(), node, True))

    async def stop_node(self, node: str, sig: signal.Signals = signal.SIGTERM) -> None:
        self.record(ProcessState(monotonic(), node, False))
        await self.servers[node].stop(sig)

    def freeze_node(self, node: str) -> None:
        self.record(ProcessState(monotonic(), node, False))
        self.servers[node].freeze()

    def thaw_node(self, node: str) -> None:
        self.servers[node].thaw()
        self.record(ProcessState(monotonic(), node, True))

    def copy_store(self, node: str, to: Path) -> None:
        """Keep a copy of what a server stores, as it is on disk."""
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.store(node), to, ignore_dangling_symlinks=True)

    def replace_store(self, node: str, copy: Path | None) -> None:
        """Have a server that does not run begin with a copy, or with nothing."""
        for each in self.store(node).iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        if copy is not None:
            shutil.copytree(copy, self.store(node), dirs_exist_ok=True)

    async def stop(self) -> None:
        for server in self.servers.values():
            with contextlib.suppress(Exception):
                if server.running:
                    server.thaw()
        await asyncio.gather(*(server.__aexit__(None, None, None) for server in self.servers.values()))
        self.network.stop()
        if self.disk is not None:
            self.disk.close()


@contextlib.asynccontextmanager
async def running(folder: Path, record: Recorder, *, small_disk: bool = True) -> AsyncIterator[Cluster]:
    """A cluster for the length of a block, of a domain that is made in the folder."""
    local = LocalDomain.find(folder / "domain")
    disk = await SmallDisk.open(folder / "stores" / NODES[-1]) if small_disk else None
    cluster = Cluster(local, folder / "stores", Network(record), record, disk=disk)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()

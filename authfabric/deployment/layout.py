"""Where a fabric runs: its nodes, and where each keeps what it is given. One settings file, `fabric.yaml`, says it."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

import msgspec

from authz import AuthFabricError

SETTINGS = "fabric.yaml"
"""The settings file, in the domain's folder."""
PORT = 4222
LINK_PORT = 6222
HEALTH_PORT = 9090
"""The access control service of a node serves its health here, and replica N on the N-th port after it."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_GIVEN = re.compile(r"(?:(?P<name>[^=]*)=)?(?P<host>\[[^\]]*\]|[^:\[\]]+)(?::(?P<port>\d{1,5}))?")


class InvalidLayout(AuthFabricError):
    """Nodes that cannot be set up so: `problem` says what would be right."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A machine with a NATS server, an access control service and PDP replicas."""

    name: str
    host: str
    """A name or address at which members and the other nodes reach it."""
    port: int = PORT
    links: int = LINK_PORT
    """The port at which the other nodes reach its server."""
    listen: str = ""
    """The address that its server listens on. Default: `host` if that is an address, else all."""
    health: str = "127.0.0.1"
    """The address on which its access control service and its replicas serve health and metrics."""
    pdps: int = 2

    @property
    def bound(self) -> str:
        """What its server listens on, as it stands before a port."""
        return _bracketed(self.listen or (self.host if _is_address(self.host) else "0.0.0.0"))  # noqa: S104

    @property
    def address(self) -> str:
        """Host and port for members."""
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def link_address(self) -> str:
        return f"{_bracketed(self.host)}:{self.links}"

    def health_address(self, number: int) -> str:
        """Where its replica of a number serves health and metrics; with 0, its access control service."""
        return f"{_bracketed(self.health)}:{HEALTH_PORT + number}"

    @property
    def replicas(self) -> range:
        return range(1, self.pdps + 1)


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All nodes, and the folders on each; `{node}` in one stands for the node's name."""

    nodes: tuple[Node, ...]
    config: str = "/etc/authfabric"
    state: str = "/var/lib/authfabric"
    cache: str = "/var/cache/authfabric"
    units: str = "/etc/systemd/system"
    programs: str = "/opt/authfabric/bin"
    """Where `authfabric` and `nats-server` are installed."""

    @property
    def url(self) -> str:
        """Where members reach the servers."""
        return ",".join(f"tls://{node.address}" for node in self.nodes)

    @property
    def hosts(self) -> list[str]:
        return [node.host for node in self.nodes]

    def on(self, node: Node) -> Layout:
        """The folders as they are called on one node."""
        folders = {each: getattr(self, each).replace("{node}", node.name) for each in FOLDERS}
        return msgspec.structs.replace(self, **folders)

    def check(self) -> None:
        """Raise InvalidLayout unless every node can be told from the others, and every folder is a whole path."""
        if not self.nodes:
            raise InvalidLayout("there must be a node at least")
        for what, found in (
            ("name", [node.name for node in self.nodes]),
            ("address", [node.address for node in self.nodes]),
            ("address for links", [node.link_address for node in self.nodes]),
        ):
            if twice := {each for each in found if found.count(each) > 1}:
                raise InvalidLayout(f"two nodes have the {what} `{min(twice)}`: each needs its own")
        for node in self.nodes:
            _check_node(node)
        for each in FOLDERS:
            if not getattr(self, each).startswith("/"):
                raise InvalidLayout(
                    f"`{each}: {getattr(self, each)}` must be a whole path, beginning with `/`"
                )


FOLDERS = ("config", "state", "cache", "units", "programs")


def parse_nodes(text: str) -> Layout:
    """The layout that `--nodes a.example,b.example,c.example` stands for: each is `[NAME=]HOST[:PORT]`."""
    nodes: list[Node] = []
    for number, each in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        found = _GIVEN.fullmatch(each)
        if found is None:
            raise InvalidLayout(f"the node `{each}` must be written `HOST`, `HOST:PORT` or `NAME=HOST:PORT`")
        host = found["host"].strip("[]")
        name = found["name"] or (f"node{number}" if _is_address(host) else host.partition(".")[0])
        nodes.append(Node(name, host, int(found["port"] or PORT)))
    layout = Layout(tuple(nodes))
    layout.check()
    return layout


def read_layout(path: Path) -> Layout:
    """Raises InvalidLayout, also if there is no such file."""
    try:
        layout = msgspec.yaml.decode(path.read_bytes(), type=Layout)
    except OSError as error:
        raise InvalidLayout(f"`{path}` cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidLayout(f"`{path}` is no settings file of a fabric: {error}") from None
    layout.check()
    return layout


def write_layout(path: Path, layout: Layout) -> None:
    head = "# The nodes of this fabric, and the folders on each. After a change: `authfabric domain nodes FOLDER`.\n"
    path.write_text(head + msgspec.yaml.encode(layout).decode())


def _check_node(node: Node) -> None:
    if not _NAME.fullmatch(node.name):
        raise InvalidLayout(f"the node's name `{node.name}` must be of letters, digits and `-`")
    if not node.host or set(node.host) & set(" /@\"'\\{}"):
        raise InvalidLayout(f"the host `{node.host}` must be a name or an address")
    for port in (node.port, node.links):
        if not 0 < port < 65_536:
            raise InvalidLayout(f"`{port}` is no port: it must be between 1 and 65535")
    for address in filter(None, (node.listen, node.health)):
        if not _is_address(address):
            raise InvalidLayout(f"`{address}` must be an address to listen on, such as 10.0.0.1")
    if not 0 <= node.pdps <= 64:
        raise InvalidLayout(f"`pdps: {node.pdps}` must be between 0 and 64")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

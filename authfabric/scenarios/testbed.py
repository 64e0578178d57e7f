"""A stage for event scenarios: domains on one NATS server, each with a PDP, a broker and clients of its own.

Usually they share one account of a server that refuses strangers, and everybody has a capability for the subjects of
their own domain. With accounts, each domain is an account of the server. It exports what its own brokers send, and
imports what those of the others send; nothing else crosses from one to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import secrets
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time

from authfabric.files import write_authority, write_encoded
from authfabric.processes import LocalDomain, ReplicaProcess, RoleRules
from authz import Identity, PublicKey
from authz.spki import Certificate, encode_chain
from bus.identity import Credentials, create_key, read_credentials
from bus.nats import Connection
from bus.server import NatsServer
from bus.services import service_name
from bus.wire import subjects
from pdp.bundle import Bundle, File
from pdp.releases import Publisher
from pubsub_core.client import EventClient
from pubsub_core.rules import Rows
from pubsub_core.stores import TableStore, TypeStore
from pubsub_core.trust import ALL, Credential, issue, vouch
from pubsub_core.types import Catalogue, SignedType

LASTS = 86_400.0


@dataclass
class Domain:
    """An organisation: its key, its place on the server, and what it runs."""

    name: str
    url: str
    folder: Path
    local: LocalDomain | None = None
    """Who may connect; None if anybody may who knows the URL."""
    key: Identity = field(default_factory=Identity.generate)
    processes: dict[str, ReplicaProcess] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    """By which brokers were started."""
    server: NatsServer | None = None
    """The server that all domains of the stage share."""
    owners: set[PublicKey] = field(default_factory=set)
    """Those whose word about brokers the domain's clients believe."""

    def access(self, name: str, actions: str = "connect", also: str = "") -> Path | None:
        """A file of credentials by which somebody may do this here; None if nobody needs any."""
        if self.local is None:
            return None
        path = self.folder / f"{self.name}-{name}.credentials.json"
        self.local.hand_out(path, f"{self.name}-{name}", f"network: {self.name}\naction: {actions}\n{also}")
        return path

    def connect(self, name: str, actions: str = "connect") -> Connection:
        """A connection, to be entered, of somebody who may do this here."""
        return Connection(self.url, name=name, credentials=_read(self.access(name, actions)))

    async def release(self, policies: str | Sequence[File], force: str = "") -> int:
        """Put policies in force, a file of attribute policies or several of any kind; returns their epoch.

        `force` says why they allow everything to everyone, if they do.
        """
        files = [File("events.yaml", policies)] if isinstance(policies, str) else policies
        async with self.connect("releases", "connect|install") as bus:
            publisher = Publisher(bus, self.name, self.key, {self.key.public}, time)
            return (await publisher.push(Bundle.of(files), force=force)).released.epoch

    async def put_table(self, name: str, rows: Rows) -> None:
        """Put a context table where the domain's brokers look things up."""
        async with self.connect("tables", "connect|install") as bus:
            await TableStore(bus, self.name, {self.key.public}).put(name, rows, self.key)

    async def publish_types(self, *types: SignedType) -> None:
        """Put definitions where the domain's broker finds them."""
        async with self.connect("types", "connect|install") as bus:
            store = TypeStore(bus, Catalogue())
            for each in types:
                await store.publish(each)

    async def start_roles(self, identity: Identity) -> Sequence[str]:
        """Start a role service; returns what to tell the PDP, so that it asks there who is in which role."""
        name = f"roles-{self.name}"
        key, attributes = self.folder / f"{name}.key", self.folder / f"{name}.yaml"
        create_key(key, identity, None)
        attributes.write_text(
            f"- {{service: {service_name(self.name)}, key: {identity.public}, provides: [subject.roles]}}\n"
        )
        words = ["roles", "serve", "--url", self.url, "--name", name, "--domain", self.name]
        words += ["--key", str(key), "--trust", str(self.key.public)]
        self.processes[name] = await ReplicaProcess.launch(
            name, words, self.access("roles", "connect|provide")
        )
        return ["--attributes", str(attributes)]

    async def start_pdp(self, extra: Sequence[str] = ()) -> None:
        authority = write_authority(self.folder, f"pdp-{self.name}", self.key)
        cache = ["--cache", str(self.folder / f"releases-{self.name}")]
        words = ["--domain", self.name, "--trust", str(self.key.public), *cache, *authority, *extra]
        name = f"pdp-{self.name}"
        access = self.access("pdp", also="object: *\naction: decide")
        self.processes[name] = await ReplicaProcess.start(
            name, self.url, policies=None, extra=words, credentials=access
        )

    async def start_broker(
        self,
        domains: Sequence[Domain],
        owner: Identity,
        extra: Sequence[str] = (),
        name: str = "",
        identity: Identity | None = None,
    ) -> None:
        """Start a broker, named like the domain or otherwise; the owner of the types trusts it with what it carries."""
        identity, name = identity or Identity.generate(), name or self.name
        self.owners.add(owner.public)
        key, word = self.folder / f"broker-{name}.key", self.folder / f"broker-{name}.vouch"
        create_key(key, identity, None)
        write_encoded(word, vouch(identity.public, [ALL], time() + LASTS, owner))
        clients = [text for each in domains for text in ("--clients", f"{each.name}={each.key.public}")]
        words = ["broker", "serve", "--url", self.url, "--name", name, "--domain", self.name]
        words += ["--key", str(key), "--vouch", str(word), "--trust", str(self.key.public), *clients, *extra]
        words += ["--known", str(self.folder / f"broker-{name}.known")]
        self.commands[name] = words
        self.processes[name] = await self._launch_broker(name)

    async def restart_broker(self, name: str) -> None:
        """End a broker at once, as a crash would, and start it again."""
        await self.processes[name].kill()
        self.processes[name] = await self._launch_broker(name)

    async def _launch_broker(self, name: str) -> ReplicaProcess:
        access = self.access(f"broker-{name}", "connect|carry")
        return await ReplicaProcess.launch(name, self.commands[name], access)

    @contextlib.asynccontextmanager
    async def client(
        self,
        name: str,
        attributes: Mapping[str, object],
        identity: Identity | None = None,
        chain: Sequence[Certificate] = (),
        broker: str = "",
    ) -> AsyncIterator[EventClient]:
        """A client of the domain's broker, or of one of them."""
        identity = identity or Identity.generate()
        access = self.access(f"client-{name}")
        given = Credential(str(identity.public), name, self.name, time() + LASTS, dict(attributes))
        async with EventClient.connect(
            self.url,
            broker=broker or self.name,
            domain=self.name,
            identity=identity,
            credential=issue(given, self.key),
            chains=(encode_chain(chain),) if chain else (),
            trust=self.owners,
            access=_read(access),
        ) as client:
            yield client


class ServerMode(enum.Enum):
    """What the domains stand on."""

    SECURED = enum.auto()
    """One account, and capabilities."""
    ACCOUNTS = enum.auto()
    """An account for each domain, and passwords."""
    OPEN = enum.auto()
    """One account, for anybody."""


@contextlib.asynccontextmanager
async def stage(
    names: Sequence[str],
    ground: ServerMode = ServerMode.SECURED,
    audit: bool = False,
    keys: Mapping[str, Identity] | None = None,
    roles: RoleRules | None = None,
) -> AsyncIterator[tuple[Domain, ...]]:
    """Domains with nothing running in them yet, on a server of their own.

    With `audit` what is decided and shown on secured ground is recorded; `roles` give capabilities there. `keys` are of
    domains whose keys are known before.
    """
    known = keys or {}
    passwords = {name: secrets.token_hex(8) for name in names}
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="authfabric-stage-")))
        local = LocalDomain.find(folder / "domain") if ground is ServerMode.SECURED else None
        accounts = _accounts(passwords) if ground is ServerMode.ACCOUNTS else ""
        extra = local.configuration() if local else accounts
        server = await stack.enter_async_context(NatsServer(jetstream=True, extra=extra))
        url = server.url
        if local is not None:
            local = local.at_url(url)
            await stack.enter_async_context(local.serving(audit, roles))
        domains = tuple(
            Domain(
                name,
                _url(url, name, word) if ground is ServerMode.ACCOUNTS else url,
                folder,
                local,
                known.get(name) or Identity.generate(),
                server=server,
            )
            for name, word in passwords.items()
        )
        try:
            yield domains
        finally:
            running = [each for domain in domains for each in domain.processes.values()]
            await asyncio.gather(*(each.stop() for each in running))


def _read(file: Path | None) -> Credentials | None:
    return None if file is None else read_credentials(file).credentials


def _url(url: str, name: str, password: str) -> str:
    return url.replace("://", f"://{name}:{password}@")


def _accounts(passwords: Mapping[str, str]) -> str:
    """The server's accounts: what a domain's brokers send goes out, what the others' send comes in."""
    text = ""
    for name, password in passwords.items():
        exports = ", ".join(f'{{stream: "{subject}"}}' for subject in _links(name))
        imports = ", ".join(
            f'{{stream: {{account: {subjects.token(other)}, subject: "{subject}"}}}}'
            for other in passwords
            if other != name
            for subject in _links(other)
        )
        user = f'{{user: "{name}", password: "{password}"}}'
        rights = f"users: [{user}], exports: [{exports}], imports: [{imports}]"
        text += f"{subjects.token(name)}: {{ jetstream: enabled, {rights} }}\n"
    return f"accounts {{\n{text}}}\n"


def _links(domain: str) -> tuple[str, ...]:
    records = subjects.broker_record(domain, "*", ">")
    return subjects.parcels(domain), records, subjects.past(domain, "*")

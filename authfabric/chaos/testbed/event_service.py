"""The event service of a run: two brokers that keep histories, a type of event, and clients at both."""

from __future__ import annotations

import sys
from time import time
from uuid import uuid4

import msgspec

from authfabric.chaos.testbed.members import Member, Members, words
from authfabric.chaos.workload import ATTRIBUTES, DOMAIN, TYPE, Client, EventLoad
from authfabric.files import write_encoded
from authz import Identity, PublicKey
from bus.identity import create_key, read_credentials
from bus.nats import Connection
from pubsub_core.stores import TypeStore
from pubsub_core.trust import ALL, Credential, issue, vouch
from pubsub_core.types import Catalogue, EventType, SignedType

BROKERS = ("north", "south")
CLIENTS = "clients"
LASTS = 7 * 86_400.0

_SOME = ("number", "publisher")
_READERS = (
    ("reader", "reader", ATTRIBUTES, False),
    ("counter", "counter", _SOME, False),
    ("watcher", "reader", ATTRIBUTES, True),
)
"""Names, roles, what each may see, and whether it asks for events from now on only, and not for the past."""


class EventService:
    """Starts what carries events."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._owner = Identity.generate()

    @property
    def owner(self) -> PublicKey:
        """Whose type it is."""
        return self._owner.public

    async def define(self, url: str) -> None:
        """Make the type known."""
        access = self._members.credentials("types", "network: *\naction: connect|install")
        kind = EventType.new(TYPE, self._owner.public, list(ATTRIBUTES.items()), uuid4)
        async with Connection(url, name="types", credentials=read_credentials(access).credentials) as bus:
            await TypeStore(bus, Catalogue()).publish(SignedType.sign(kind, self._owner))

    async def add_broker(self, name: str) -> None:
        members, folder = self._members, self._members.folder
        url, identity = await members.cluster.connect(name), Identity.generate()
        key, word = folder / f"{name}.key", folder / f"{name}.vouch"
        create_key(key, identity, None)
        write_encoded(word, vouch(identity.public, [ALL], time() + LASTS, self._owner))
        root = str(members.root.public)
        command = ["broker", "serve", "--url", url, "--name", name, "--domain", DOMAIN, "--key", str(key)]
        command += ["--vouch", str(word), "--trust", root, "--clients", f"{DOMAIN}={root}"]
        command += ["--known", str(folder / f"{name}.known"), "--history", f"sqlite:///{folder / name}.db"]
        command += ["--history-key", str(folder / f"{name}.history-key"), "--no-disclosures"]
        access = members.credentials(name, "network: *\naction: connect|carry")
        await members.add(name, Member(words(command), access))

    async def add_clients(self) -> None:
        """A publisher and the readers at each broker, in one process."""
        members = self._members
        url = await members.cluster.connect(CLIENTS)
        clients = [
            client
            for broker in BROKERS
            for client in (
                self.client(f"sensor-{broker}", broker, "sensor", ()),
                *(
                    self.client(f"{name}-{broker}", broker, role, tuple(sees), live=live)
                    for name, role, sees, live in _READERS
                ),
            )
        ]
        record, access = members.folder / f"{CLIENTS}.record", members.credentials(CLIENTS)
        told = EventLoad(url, str(self._owner.public), str(access), str(record), tuple(clients))
        command = [
            sys.executable,
            "-m",
            "authfabric.chaos.workload.event_load",
            msgspec.json.encode(told).decode(),
        ]
        await members.add(CLIENTS, Member(command))

    def client(
        self, name: str, broker: str, role: str, may_see: tuple[str, ...] = (), *, live: bool = False
    ) -> Client:
        """Somebody with a key and a credential of the domain."""
        folder, identity = self._members.folder, Identity.generate()
        key, file = folder / f"{name}.key", folder / f"{name}.credential"
        create_key(key, identity, None)
        given = Credential(str(identity.public), name, DOMAIN, time() + LASTS, {"role": role})
        file.write_bytes(issue(given, self._members.root))
        return Client(name, broker, role == "sensor", str(key), str(file), may_see, live)

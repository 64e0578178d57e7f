"""Sealed types in scenarios: a key manager of their own, and brokers with keys for some of their attributes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import time

from authfabric.files import replace_file
from authfabric.processes import ReplicaProcess
from authfabric.scenarios.testbed import LASTS, Domain
from authz import Identity
from authz.spki import Capability, Validity, parse_authority, unparse_chain
from bus.identity import create_key
from pubsub_core.key_groups import Appointment, KeyDistribution, KeyedType, KeyManager, appointments
from pubsub_core.keys import Plan
from pubsub_core.types import Catalogue, SignedType

LOOK_SECONDS = 0.1


@dataclass
class SealedType:
    """A type all of whose attributes are sealed, each under a key of its own."""

    owner: Domain
    """Who signed it, and has its keys managed."""
    signed: SignedType
    manager: Identity = field(default_factory=Identity.generate)
    brokers: dict[str, Identity] = field(default_factory=dict)
    """Those that were given a right to keys, by name."""
    expected: dict[str, set[str]] = field(default_factory=dict)
    """The brokers that are to hold the key of each attribute."""

    @property
    def name(self) -> str:
        return self.signed.definition.name

    async def start_manager(self) -> None:
        """Start the manager of its keys, whom the owner has appointed."""
        owner, now = self.owner, time()
        key, word = owner.folder / f"keys-{self.name}.key", owner.folder / f"{self.name}.appointment"
        create_key(key, self.manager, None)
        said = Appointment(self.signed.definition.id, str(self.manager.public), now + LASTS, now)
        replace_file(word, base64.b64encode(appointments.sign(said, owner.key)).decode() + "\n")
        words = [
            "keys",
            "serve",
            self.name,
            "--key",
            str(key),
            "--appointment",
            str(word),
            "--url",
            owner.url,
        ]
        access = owner.access(f"keys-{self.name}", "connect|install")
        name = f"keys-{self.name}"
        owner.processes[name] = await ReplicaProcess.launch(name, words, access)

    def allow(self, broker: str, hidden: Sequence[str] = ()) -> tuple[Identity, list[str]]:
        """A broker's key, and the words by which it asks for the keys of all attributes but the hidden ones."""
        identity, now = Identity.generate(), int(time())
        names = [each.name for each in self.signed.definition.attributes if each.name not in hidden]
        text = f"type: {self.name}\naction: publish|subscribe\nattributes: {', '.join(names)}"
        validity = Validity(now - 60, now + int(LASTS))
        key = self.owner.key
        right = Capability(key.public, identity.public, False, parse_authority(text), validity).sign(key)
        file = self.owner.folder / f"{broker}-{self.name}.cap"
        replace_file(file, unparse_chain((right,)))
        self.brokers[broker] = identity
        for each in names:
            self.expected.setdefault(each, set()).add(broker)
        return identity, ["--sealed", f"{self.name}={file}"]

    async def until_held(self) -> str:
        """Return when every broker holds its keys; says who holds which."""
        async with self.owner.connect("key-status", "connect|install") as bus:
            catalogue = Catalogue()
            catalogue.accept(self.signed, time())
            keyed = KeyedType.of_type(catalogue, self.signed.definition)
            manager = KeyManager(bus, KeyDistribution(self.manager, keyed, Plan(()), keyed.verifier()))
            names = {str(identity.public): name for name, identity in self.brokers.items()}
            while True:
                status = await manager.status()
                held = {
                    attribute: {names[member.key] for member in group.members if member.key in names}
                    for group in status.groups
                    for attribute in group.attributes
                }
                if held == self.expected:
                    break
                await asyncio.sleep(LOOK_SECONDS)
        said = [f"{attribute} at {', '.join(sorted(brokers))}" for attribute, brokers in held.items()]
        return f"Keys of {self.name}: {'; '.join(sorted(said))}."

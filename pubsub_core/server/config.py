"""The configuration of a broker: its name and key, whom it trusts, and what it carries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from authz import Identity, PublicKey
from authz.spki import Kind, Owners
from bus.identity import Credentials as BusCredentials
from pubsub_core.access import GENERIC, Generic
from pubsub_core.functions import Limits
from pubsub_core.history import HistorySetting
from pubsub_core.trust import vouchers
from pubsub_core.types import EVERY, Names

LEASE_SECONDS = 10.0
"""Seconds without the policy feed after which nothing is delivered until it is heard again."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """What speaks for a broker and for its clients. It may be given anew while the broker runs."""

    clients: Mapping[str, Collection[PublicKey]]
    vouches: tuple[bytes, ...]
    sealed: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Serving:
    """The configuration of a broker."""

    url: str
    name: str
    domain: str
    identity: Identity
    clients: Mapping[str, Collection[PublicKey]]
    """The domains whose credentials count, each with the keys that sign them."""
    policies: Collection[PublicKey] = ()
    """Whose PDPs are believed, and whose releases of policies are followed."""
    roots: Collection[PublicKey] = ()
    """Those who may vouch for brokers for any type, besides the owners of types."""
    vouches: tuple[bytes, ...] = ()
    owner_keys: tuple[Identity, ...] = ()
    """The type owners whose heartbeats this broker sends."""
    owners: Owners | None = None
    """The type owners without whose capability nobody uses their types."""
    share: float = 1.0
    """The share of other brokers' bundles that is verified."""
    generic: Mapping[str, Generic] = field(default_factory=lambda: GENERIC)
    lease: float = LEASE_SECONDS
    sealed: Mapping[str, bytes] = field(default_factory=dict)
    """The types whose events are sealed, by name, each with the capability by which their keys are asked for."""
    network: bytes = b""
    """A secret that all brokers of the network share: then definitions travel, and are stored, under it."""
    history: HistorySetting | None = None
    """Where what its clients publish is kept, if anywhere."""
    known: Path | None = None
    """A file that remembers which owners send heartbeats."""
    managers: Path | None = None
    """A file that remembers who was appointed to manage the keys of types."""
    disclosures: bool = True
    """Whether what is sent under rules goes into the audit stream, if there is one."""
    functions: str = ""
    """A module with functions that rules may name."""
    limits: Limits = field(default_factory=Limits)
    """What those functions may use."""
    home: str = ""
    """The server of its own domain, where PDPs are asked and policies followed, if it is another than `url`."""
    home_access: BusCredentials | None = None
    """What lets it connect there, if that is another than what lets it connect to the network."""
    unverified: bool = False
    """Whether it believes whichever PDP answers: only where nobody else can speak."""
    names: Collection[tuple[str, PublicKey]] = ()
    """Who is trusted with which names of types, by patterns such as `uk.gov.pito.*`; see `trusted_names`."""
    group: str = ""
    """The name by which clients find this broker or any other of the same group; empty for none."""

    reread: Callable[[], Certificates] | None = None
    """Reads anew what `clients`, `vouches` and `sealed` were read from, if that may change."""

    def trusted_names(self) -> Names:
        """The keys whose definitions a broker uses.

        What `names` and `owners` do not say is for those whom it was told to trust: who signs for its own domain, whose
        policies it follows, its roots, the owners whose heartbeats it sends, and whoever vouches for it.
        """
        said = [*self.names, *(self.owners.entries(Kind.TYPE) if self.owners is not None else ())]
        if any(pattern == EVERY for pattern, _ in said):
            return Names(said)
        owners = (each.public for each in self.owner_keys)
        domain = self.clients.get(self.domain, ())
        vouch = vouchers(self.vouches, self.identity.public)
        trusted = {*domain, *self.policies, *self.roots, *owners, *vouch}
        return Names([*said, *((EVERY, key) for key in trusted)])

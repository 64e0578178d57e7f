"""A domain: its keys, what its access control service holds, and how others come to be below it.

After Pesonen, Eyers and Bacon, "Access Control in Decentralised Publish/Subscribe Systems", section III. The
coordinating domain owns the network; others join by its word, and pass on what they were given. Two keys: the
domain's own, which owns and admits and can be kept away, and that of its access control service, which holds all
that the domain does by a blanket certificate.

Members, servers and the links between servers are certified by three keys, which follow from the domain's own. The
service's key certifies members only, and so do the domains below: docs/design/authorities.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from authz import Identity, PublicKey
from authz.crypto import Seal
from authz.spki import Authority, Capability, Certificate, ChainRefused, Fault, Validity, parse_authority
from bus.identity import Lifetime, Purpose, Subject, certify

YEAR = 365 * 86_400
ROOT_SECONDS = 10 * YEAR
"""How long a domain's own authorities last."""
EVERYTHING = parse_authority("resource: *\naction: *")


class JoinRequest(msgspec.Struct, frozen=True, array_like=True):
    """A domain asks to join another. Its own key signs it: so it holds the key that it wants empowered."""

    name: str
    wants: str
    """The authority asked for, in its text form."""
    at: float


JOIN_REQUEST: Seal[JoinRequest] = Seal("join request", JoinRequest)


class Membership(msgspec.Struct, frozen=True):
    """What a domain is given when it joins another: a capability, a place in its chain of TLS, and its address."""

    network: str
    url: str
    capability: str
    """A chain that ends with the new domain's key, in its text form."""
    certificate: str
    """The new domain's TLS certificate as an authority for members, and those above it; PEM."""
    authority: str
    """The root that certifies the network's servers; PEM."""
    trust: tuple[str, ...] = ()
    """The public keys whose word counts in the network: about releases, and about who may decide."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain that can sign: its name and its two keys."""

    name: str
    owner: Identity
    service: Identity
    links: int = 1
    """How many times servers were given something new to show each other: what came before does not count."""
    before: Identity | None = None
    """The domain's own key of before, while it counts beside this one: servers are certified by it until then."""

    @property
    def issuer(self) -> Issuer:
        return Issuer(self.name, self.service)

    def blanket(self, at: float) -> Certificate:
        """What lets the access control service use all that the domain holds now, and is granted later."""
        return self._lend(self.service.public, at)

    def lending_to_before(self, at: float) -> Certificate | None:
        """The capability that keeps grants of the domain's previous key valid; None if there is none."""
        return None if self.before is None else self._lend(self.before.public, at)

    def _lend(self, key: PublicKey, at: float) -> Certificate:
        capability = Capability(self.owner.public, key, True, EVERYTHING, Validity(int(at), None))
        return capability.sign(self.owner)

    def member_authority(self, at: float) -> str:
        """The TLS certificates that all members' rest on: below each the service, or another domain and its service."""
        return "".join(
            certify(Subject(self.name, key.public, below=2), key, self.name, Lifetime(at, ROOT_SECONDS))
            for key in self._counting
        )

    def service_authority(self, at: float) -> str:
        """The TLS certificate by which the access control service certifies members."""
        subject = Subject(service_name(self.name), self.service.public, below=0)
        return certify(subject, self.owner, self.name, Lifetime(at, ROOT_SECONDS))

    def host_authority(self, purpose: Purpose, at: float) -> str:
        """The TLS certificates that those of servers rest on, or of links between servers: nothing else does."""
        keys, name = (
            (self._host_key(purpose, each) for each in self._counting),
            _host_authority_name(purpose, self.name),
        )
        return "".join(
            certify(Subject(name, key.public, (), purpose, 0), key, name, Lifetime(at, ROOT_SECONDS))
            for key in keys
        )

    def certify_host(self, purpose: Purpose, key: PublicKey, hosts: tuple[str, ...], at: float) -> str:
        """A TLS certificate for a server, or for its links with others."""
        subject = Subject(f"server of {self.name}", key, hosts, purpose)
        name = _host_authority_name(purpose, self.name)
        return certify(subject, self._host_key(purpose, self._counting[0]), name, Lifetime(at, YEAR))

    @property
    def link_secret(self) -> str:
        """What the domain's servers say to each other."""
        return self._counting[0].derive(f"secret of links between servers {self.links}").hex()

    @property
    def _counting(self) -> tuple[Identity, ...]:
        """The domain's own keys that count, that which certifies servers first."""
        return (self.owner,) if self.before is None else (self.before, self.owner)

    def _host_key(self, purpose: Purpose, owner: Identity) -> Identity:
        number = self.links if purpose is Purpose.LINK else 1
        return Identity.from_seed(owner.derive(f"authority for tls {purpose.name.lower()} {number}"))

    def admit(
        self, name: str, key: PublicKey, authority: Authority, lifetime: Lifetime
    ) -> tuple[Certificate, str]:
        """Let another domain in: what it may do and pass on, and its TLS certificate as an authority for members."""
        validity = Validity(int(lifetime.at), int(lifetime.at + lifetime.seconds))
        capability = Capability(self.owner.public, key, True, authority, validity).sign(self.owner)
        return capability, certify(Subject(name, key, below=1), self.owner, self.name, lifetime)


@dataclass(frozen=True, slots=True)
class Issuer:
    """What an access control service signs with, day by day."""

    name: str
    service: Identity

    def grant(
        self, key: PublicKey, authority: Authority, lifetime: Lifetime, *, delegate: bool = False
    ) -> Certificate:
        """A capability for a member of the domain."""
        validity = Validity(int(lifetime.at), int(lifetime.at + lifetime.seconds))
        return Capability(self.service.public, key, delegate, authority, validity).sign(self.service)

    def certify(self, subject: Subject, lifetime: Lifetime) -> str:
        """A TLS certificate for a member of the domain."""
        return certify(subject, self.service, service_name(self.name), lifetime)


def service_name(domain: str) -> str:
    """How the access control service of a domain is called in TLS certificates."""
    return f"access control of {domain}"[:64]


def _host_authority_name(purpose: Purpose, domain: str) -> str:
    """How an authority for servers, or for their links, is called in TLS certificates."""
    return f"{purpose.name.lower()}s of {domain}"[:64]


def check_membership(chain: tuple[Certificate, ...], key: PublicKey) -> None:
    """Raise ChainRefused unless a chain empowers this key to pass on what it grants."""
    capability = chain[-1].open()
    if capability.subject != key or not capability.delegate:
        raise ChainRefused(len(chain), Fault.NOT_THE_HOLDER, f"must let `{key}` pass on what it grants")

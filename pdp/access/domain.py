"""A domain: its keys, what its access control service holds, and how others come to be below it.

After Pesonen, Eyers and Bacon, "Access Control in Decentralised Publish/Subscribe Systems", section III. The
coordinating domain owns the network; others join by its word, and pass on what they were given. Two keys: the
domain's own, which owns and admits and can be kept away, and that of its access control service, which holds all
that the domain does by a blanket certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from authz import Identity, PublicKey
from authz.seal import Seal
from authz.spki import Authority, Capability, Certificate, ChainRefused, Fault, Validity, parse_authority
from bus.certificates import Lifetime, Subject, certify

YEAR = 365 * 86_400
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
    """The new domain's TLS certificate as an authority, and those above it; PEM."""
    authority: str
    """The root that certifies the network's servers; PEM."""


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain that can sign: its name and its two keys."""

    name: str
    owner: Identity
    service: Identity

    def blanket(self, at: float) -> Certificate:
        """What lets the access control service use all that the domain holds now, and is granted later."""
        validity = Validity(int(at), None)
        capability = Capability(self.owner.public, self.service.public, True, EVERYTHING, validity)
        return capability.sign(self.owner)

    def root(self, at: float) -> str:
        """The domain's TLS certificate, by its own word."""
        subject = Subject(self.name, self.owner.public, authority=True)
        return certify(subject, self.owner, self.name, Lifetime(at, 10 * YEAR))

    def service_authority(self, at: float) -> str:
        """The TLS certificate by which the access control service certifies others."""
        subject = Subject(service_name(self.name), self.service.public, authority=True)
        return certify(subject, self.owner, self.name, Lifetime(at, 10 * YEAR))

    def admit(
        self, name: str, key: PublicKey, authority: Authority, lifetime: Lifetime
    ) -> tuple[Certificate, str]:
        """Let another domain in: what it may do and pass on, and its TLS certificate as an authority."""
        validity = Validity(int(lifetime.at), int(lifetime.at + lifetime.seconds))
        capability = Capability(self.owner.public, key, True, authority, validity).sign(self.owner)
        return capability, certify(Subject(name, key, authority=True), self.owner, self.name, lifetime)


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
        """A TLS certificate for a member or a server of the domain."""
        return certify(subject, self.service, service_name(self.name), lifetime)


def service_name(domain: str) -> str:
    """How the access control service of a domain is called in TLS certificates."""
    return f"access control of {domain}"[:64]


def check_membership(chain: tuple[Certificate, ...], key: PublicKey) -> None:
    """Raise ChainRefused unless a chain empowers this key to pass on what it grants."""
    capability = chain[-1].open()
    if capability.subject != key or not capability.delegate:
        raise ChainRefused(len(chain), Fault.NOT_THE_HOLDER, f"must let `{key}` pass on what it grants")

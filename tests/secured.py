"""A domain with a secured NATS server and its access control service, for tests that come to it with keys."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import time

from authz import Identity, PublicKey
from authz.spki import (
    Capability,
    Certificate,
    Kind,
    Notice,
    Owners,
    Resource,
    Validity,
    Verifier,
    encode_chain,
    parse_authority,
)
from bus import Connection, NatsServer
from bus.identity.certificates import Lifetime, Purpose, Subject, certify
from bus.identity.credentials import Credentials
from bus.identity.credentials_store import client_context
from bus.server.server_config import Limits, Links, Security, ServiceKeys
from pdp.access import AccessControl, AccessRules, AccessService
from pdp.access.connection_accounting import ConnectionAccounting, Share
from pdp.access.domain import Domain
from pubsub_core.carriage import CarrierRightsService

YEAR = 365 * 86_400.0
PEP = "network: default\naction: connect"
PDP = f"{PEP}\nobject: *\naction: decide"


@dataclass
class Secured:
    """The keys of a domain, and its files below a folder."""

    folder: Path
    rules: AccessRules = field(default_factory=AccessRules)
    share: Share = field(default_factory=Share)
    limits: Limits = field(default_factory=Limits)
    url: str = ""
    domain: Identity = field(default_factory=Identity.generate)
    service: Identity = field(default_factory=Identity.generate)
    trusted: tuple[PublicKey, ...] = ()
    """By whose word members go, besides the domain's."""
    authority: str = ""
    """Who certifies its servers."""

    def __post_init__(self) -> None:
        at, hosts, authorities = time(), ("127.0.0.1",), {"member": self.keys.member_authority(time())}
        for purpose, name in ((Purpose.SERVER, "server"), (Purpose.LINK, "link")):
            key = Identity.generate()
            (self.folder / f"{name}.key").write_bytes(key.to_pem())
            (self.folder / f"{name}.pem").write_text(self.keys.certify_host(purpose, key.public, hosts, at))
            authorities[name] = self.keys.host_authority(purpose, at)
        for name, pem in authorities.items():
            (self.folder / f"{name}-ca.pem").write_text(pem)
        self.authority = authorities["server"]

    @property
    def keys(self) -> Domain:
        return Domain("domain", self.domain, self.service)

    def certificate(self, identity: Identity, seconds: float = YEAR) -> str:
        """A member's."""
        subject = Subject("someone", identity.public)
        return certify(subject, self.domain, "domain", Lifetime(time(), seconds))

    @property
    def security(self) -> Security:
        names = ("server.pem", "server.key", "member-ca.pem", "link.pem", "link.key", "link-ca.pem")
        certificate, key, members, *linked = (self.folder / name for name in names)
        links = Links(*linked, self.keys.link_secret)
        return Security(ServiceKeys.of(self.service).names(), certificate, key, members, links, self.limits)

    @property
    def holding(self) -> Certificate:
        everything = parse_authority("resource: *\naction: *")
        return Capability(self.domain.public, self.service.public, True, everything).sign(self.domain)

    def control(self) -> AccessControl:
        owners = Owners([(Resource(Kind.ANY, "*"), self.domain.public)])
        return AccessControl(
            Verifier(owners), self.service.public, [(self.holding,)], self.rules, trusted=self.trusted
        )

    def access(
        self, control: AccessControl | None = None, clock: Callable[[], float] = time
    ) -> AccessService:
        keys, tls = ServiceKeys.of(self.service), self.tls(self.service)
        return AccessService(
            self.url,
            keys,
            control or self.control(),
            clock,
            tls,
            ConnectionAccounting(self.share),
            carriage=CarrierRightsService(clock=clock),
        )

    def tls(self, identity: Identity):
        return client_context(identity, self.certificate(identity), self.authority)

    def grant(self, identity: Identity, text: str, *, seconds: int = 3600, start: int = 0, delegate=False):
        """A certificate that the service issues."""
        validity = Validity(start, int(time()) + seconds)
        capability = Capability(
            self.service.public, identity.public, delegate, parse_authority(text), validity
        )
        return capability.sign(self.service)

    def credentials(self, text: str = PEP, identity: Identity | None = None, **options) -> Credentials:
        identity = identity or Identity.generate()
        chain = encode_chain([self.grant(identity, text, **options)])
        return Credentials(identity, chain, self.tls(identity))

    def connect(self, credentials: Credentials | str = PEP, **options) -> Connection:
        if isinstance(credentials, str):
            credentials = self.credentials(credentials)
        return Connection(self.url, credentials=credentials, **options)

    def revocation(self, certificate: Certificate) -> Notice:
        return Notice.event(self.service, certificate, int(time()))


@contextlib.asynccontextmanager
async def secured(folder: Path, **options) -> AsyncIterator[tuple[Secured, AccessService]]:
    world = Secured(folder, **options)
    async with NatsServer(jetstream=True, extra=world.security.configuration()) as server:
        world.url = server.url
        async with world.access() as access:
            yield world, access

"""A domain on this machine: made at first use, with keys for whoever `up` starts and for whoever started it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import time

from authfabric.processes.domain_process import RoleRules
from authfabric.terminal import passphrase
from authz import Identity, PublicKey
from authz.spki import parse_authority
from bus.identity import Credentials, Lifetime, write_credentials
from bus.server import ServiceKeys
from pdp.access import AccessService, Domain, DomainFolder, Enrolment, Issuer, IssuingService
from pubsub_core.carriage import CarrierRightsService

NAME = "local"
DAYS = 30 * 86_400.0
"""How long what is handed out lasts; it is handed out anew at each start."""
OPERATOR = "resource: *\naction: *"
SERVICE = "network: *\naction: connect"
REPLICA = "network: *\naction: connect\nobject: *\naction: decide"


@dataclass(frozen=True, slots=True)
class LocalDomain:
    """A domain and what its access control service signs with."""

    folder: DomainFolder
    domain: Domain

    @property
    def issuer(self) -> Issuer:
        return self.domain.issuer

    @classmethod
    def find(cls, path: Path) -> LocalDomain:
        """The domain in this folder, made if there is none; its keys are for this user's eyes only."""
        exists = (path / "domain.json").exists()
        folder = DomainFolder.open(path) if exists else DomainFolder.create(path, NAME, time(), None)
        domain = folder.domain(passphrase.known)
        folder.servers.certify(domain, time())  # anew at each start, so that it never expires
        return cls(folder, domain)

    def configuration(self) -> str:
        """What makes a NATS server refuse strangers."""
        return self.folder.servers.security(self.domain).configuration()

    def at_url(self, url: str) -> LocalDomain:
        return LocalDomain(self.folder.at_url(url), self.domain)

    def trusting(self, root: PublicKey) -> LocalDomain:
        """The same domain, in which the word of this key counts too: credentials name it."""
        return LocalDomain(self.folder.trusting([root]), self.domain)

    @contextlib.asynccontextmanager
    async def serving(
        self, audit: bool = False, roles: RoleRules | None = None
    ) -> AsyncIterator[AccessService]:
        """Decide who connects, and hand out capabilities to members, and for roles, for the length of the block."""
        keys, tls = ServiceKeys.of(self.issuer.service), self.folder.tls(self.issuer, time())
        enrolment = Enrolment(lambda: self.folder.members, self.issuer.service.public)
        certify = partial(self.folder.certify_member, self.issuer)
        async with (
            AccessService(
                self.folder.file.url,
                keys,
                self.folder.control(),
                time,
                tls,
                audit=audit,
                carriage=CarrierRightsService(),
            ) as access,
            IssuingService(
                access.member,
                self.issuer,
                time,
                access.revocations,
                enrolment,
                None if roles is None else roles(access.member),
                certify=certify,
            ),
        ):
            yield access

    def own_credentials(self) -> Credentials:
        """Those by which the access control service itself makes and reads what is kept."""
        return Credentials(
            ServiceKeys.of(self.issuer.service).member, tls=self.folder.tls(self.issuer, time())
        )

    def hand_out(self, path: Path, name: str, text: str, identity: Identity | None = None) -> None:
        """Write credentials by which their holder may do this."""
        holder = identity or Identity.generate()
        operator = text == OPERATOR
        certificate = self.issuer.grant(
            holder.public, parse_authority(text), Lifetime(time(), DAYS), delegate=operator
        )
        self.folder.forget(name)
        self.folder.grant(name, certificate)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_credentials(path, self.folder.credentials(self.issuer, holder, certificate, time()))

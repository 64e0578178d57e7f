"""What a domain's NATS servers are given, below its folder: certificates, keys and configuration.

tls/member-ca.pem    who certifies members
tls/service.pem      by which the access control service does
tls/server-ca.pem    who certifies the servers that members connect to
tls/link-ca.pem      who certifies the links between servers
tls/server.*         a server's certificate and key for members
tls/link.*           a server's certificate and key for links
nats.conf            the servers' configuration, to be completed by their operator
security.conf        what it includes so that they refuse strangers
links.conf           what it includes where they speak to each other; secret
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from authz import Identity
from bus.identity import Purpose, certified_hosts, write_private
from bus.server import Links, Security, ServiceKeys
from pdp.access.domain import Domain

LOCALHOST = ("127.0.0.1", "localhost")
"""The hosts that every server is certified for."""

_INCLUDED = 'include "security.conf"'
_SERVER = """\
listen: "{listen}"
max_payload: 1MB
ping_interval: "1.5s"
ping_max: 1
write_deadline: "2s"
jetstream {{ store_dir: "{store}", sync_interval: always }}
{included}
# Everybody who reaches the monitoring port reads who is connected: open none but on this machine.
# http: "127.0.0.1:8222"
"""
_SEVERAL = """\
# For several servers, give each a name of its own and let them find each other:
# server_name: node1
# cluster {{ name: authfabric, listen: "0.0.0.0:6222", include "links.conf"
#   routes: ["{node2}", "{node3}"] }}
"""


def server_configuration(listen: str, store: Path) -> str:
    """The configuration of a server that includes what the domain says about its security."""
    return _SERVER.format(listen=listen, store=store, included=_INCLUDED)


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of a domain's servers, as they stand on disk."""

    path: Path
    """The domain's folder."""

    def security(self, domain: Domain) -> Security:
        """What the servers need to know."""
        tls = self.path / "tls"
        links = Links(tls / "link.pem", tls / "link.key", tls / "link-ca.pem", domain.link_secret)
        names = ServiceKeys.of(domain.service).names()
        return Security(names, tls / "server.pem", tls / "server.key", tls / "member-ca.pem", links)

    def certify(self, domain: Domain, at: float, hosts: Iterable[str] = ()) -> tuple[str, ...]:
        """Give the servers new keys and certificates, and write what their configuration includes.

        Returns the names and addresses that they are for: without `hosts`, those they had before.
        """
        tls, named = self.path / "tls", tuple(dict.fromkeys(hosts)) or self._hosts()
        write_whole(tls / "member-ca.pem", domain.member_authority(at))
        write_whole(tls / "service.pem", domain.service_authority(at))
        for purpose, name in ((Purpose.SERVER, "server"), (Purpose.LINK, "link")):
            key = Identity.generate()
            write_private(tls / f"{name}.key", key.to_pem(), replace=True)
            write_whole(tls / f"{name}.pem", domain.certify_host(purpose, key.public, named, at))
            write_whole(tls / f"{name}-ca.pem", domain.host_authority(purpose, at))
        (tls / "ca.pem").unlink(missing_ok=True)  # of before there was one for each purpose
        self._configure(self.security(domain))
        return named

    @property
    def outdated(self) -> bool:
        """Whether the configuration is older than separate authorities for each purpose."""
        return self._configuration.exists() and _INCLUDED not in self._configuration.read_text()

    def replace_secret(self, before: str, after: str) -> None:
        """Name the other servers with another secret, in what their operator has completed."""
        if self._configuration.exists():
            text = self._configuration.read_text().replace(before, after)
            write_private(self._configuration, text.encode(), replace=True)

    @property
    def _configuration(self) -> Path:
        return self.path / "nats.conf"

    def _hosts(self) -> tuple[str, ...]:
        certificate = self.path / "tls" / "server.pem"
        return certified_hosts(certificate.read_text()) if certificate.exists() else LOCALHOST

    def _configure(self, security: Security) -> None:
        write_whole(self.path / "security.conf", security.configuration())
        write_private(self.path / "links.conf", security.links.configuration().encode(), replace=True)
        if self.outdated:
            self._configuration.replace(self.path / "nats.conf.old")
        if not self._configuration.exists():
            nodes = {name: security.links.url(f"{name}:6222") for name in ("node2", "node3")}
            store = self.path.resolve() / "jetstream"
            text = server_configuration("0.0.0.0:4222", store) + _SEVERAL.format(**nodes)
            write_private(self._configuration, text.encode())


def write_whole(path: Path, text: str) -> None:
    """Write a file in place of what is there, all at once."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(path)

"""One folder for each node of a fabric: everything that it is given, laid out as it is to stand there.

config/     nats.conf and what it includes, certificates, credentials, and what the access control service needs
units/      its systemd units
install.sh  puts both in their places on the machine
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from time import time

from authfabric.deployment.layout import FOLDERS, SETTINGS, Layout, Node, read_layout
from authfabric.deployment.units import node_units
from authz import Identity
from authz.spki import parse_authority
from bus.identity import (
    PASSPHRASE_FILE_VARIABLE,
    VARIABLE,
    Lifetime,
    Purpose,
    is_locked,
    read_private,
    write_credentials,
    write_private,
)
from bus.server import Links, Security, ServiceKeys
from pdp.access import LOCALHOST, Domain, DomainFolder, Issuer, server_configuration

YEAR = 365 * 86_400.0
REPLICA = "network: *\naction: connect\nobject: *\naction: decide"
OPERATOR = "resource: *\naction: *"
OPERATOR_FILE = "operator.json"
SERVED = ("domain.json", "service.key", "owners.txt", "tls/server-ca.pem", "tls/service.pem")
"""What an access control service needs of the domain's folder, besides what was issued: not the domain's own key."""
ISSUED = ("holdings", "members", "domains", "networks", "revoked")
_INSTALL = """\
#!/bin/sh
# Puts what this folder holds in its place on the node `{node}`, and starts it.
# DESTDIR=DIR puts it below another folder, and starts nothing.
set -eu
umask 077
cd "$(dirname "$0")"
root=${{DESTDIR:-}}
mkdir -p "$root{config}" "$root{state}" "$root{cache}" "$root{units}"
cp -R config/. "$root{config}/"
chmod -R go= "$root{config}"
cp units/* "$root{units}/"
chmod 644 "$root{units}"/authfabric-*
[ -z "$root" ] || exit 0
fail() {{ echo "error: $1" >&2; exit 1; }}
[ -x {programs}/authfabric ] || fail "there is no {programs}/authfabric: install authfabric there first"
case $(readlink -m {programs}/python) in /root/*|/home/*)
    fail "the Python of {programs} is in a home folder, which the units do not see: use the system's" ;; esac
{locked}id authfabric > /dev/null 2>&1 || useradd --system --home-dir {state} --shell /usr/sbin/nologin authfabric
chown -R authfabric: {config} {state} {cache}
systemctl daemon-reload
systemctl enable --now {services}
"""
_LOCKED = """\
[ -s {config}/passphrase ] || fail "the passphrase of the keys is to be in {config}/passphrase"
"""


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """The folders of all nodes, below the domain's own."""

    folder: DomainFolder
    layout: Layout

    @classmethod
    def of(cls, folder: DomainFolder) -> NodeFolders | None:
        """Those of a domain that has nodes; None if it has no settings file. Raises InvalidLayout."""
        settings = folder.path / SETTINGS
        return cls(folder, read_layout(settings)) if settings.exists() else None

    def path(self, node: Node) -> Path:
        return self.folder.path / "nodes" / node.name

    def write(self, domain: Domain, *, anew: bool = False) -> None:
        """Write what each node is given; `anew`: with new certificates and credentials, for another year."""
        for node in self.layout.nodes:
            config = self._config(node)
            for each in (config, config / "tls", config / "domain" / "tls", self.path(node) / "units"):
                each.mkdir(parents=True, exist_ok=True, mode=0o700)
            if anew or not (config / "tls" / "server.pem").exists():
                self._certify(node, domain)
            self._configure(node, domain)
            for number in node.replicas:
                self._empower(domain.issuer, node, number, anew)
            self._place(node)
        operator = self.folder.path / OPERATOR_FILE
        if anew or not operator.exists():
            self._grant(domain.issuer, "operator", OPERATOR, operator)
        self.refresh()

    def refresh(self) -> None:
        """Copy what was issued since to where the access control services of the nodes find it."""
        for node in self.layout.nodes:
            served, source = self._config(node) / "domain", self.folder.path
            for name in SERVED:
                write_private(served / name, (source / name).read_bytes(), replace=True)
            for name in ISSUED:
                shutil.rmtree(served / name, ignore_errors=True)
                if (source / name).exists():
                    shutil.copytree(source / name, served / name)
            trusted = "\n".join((self.folder.file.owner, *self.folder.file.trust))
            write_private(self._config(node) / "trusted-keys", f"{trusted}\n".encode(), replace=True)

    @property
    def replicas(self) -> set[str]:
        """The names that the replicas of all nodes have as members."""
        return {_replica(node, number) for node in self.layout.nodes for number in node.replicas}

    def services(self, node: Node) -> list[str]:
        """The names of the units that run on a node."""
        return ["authfabric-nats", "authfabric-domain", *(f"authfabric-pdp@{n}" for n in node.replicas)]

    def _config(self, node: Node) -> Path:
        return self.path(node) / "config"

    def _certify(self, node: Node, domain: Domain) -> None:
        """Each node has keys of its own: what is taken from one opens no other."""
        tls, now = self._config(node) / "tls", time()
        for purpose, name in ((Purpose.SERVER, "server"), (Purpose.LINK, "link")):
            key = Identity.generate()
            hosts = tuple(dict.fromkeys((node.host, *LOCALHOST)))
            write_private(tls / f"{name}.key", key.to_pem(), replace=True)
            certificate = domain.certify_host(purpose, key.public, hosts, now)
            write_private(tls / f"{name}.pem", certificate.encode(), replace=True)

    def _configure(self, node: Node, domain: Domain) -> None:
        there, here = self.layout.on(node), self._config(node)
        tls = Path(there.config) / "tls"
        links = Links(tls / "link.pem", tls / "link.key", tls / "link-ca.pem", domain.link_secret)
        names = ServiceKeys.of(domain.service).names()
        security = Security(names, tls / "server.pem", tls / "server.key", tls / "member-ca.pem", links)
        others = [each for each in self.layout.nodes if each.name != node.name]
        routes = ", ".join(f'"{links.url(each.link_address)}"' for each in others)
        cluster = (
            f'cluster {{ name: authfabric, listen: "{node.bound}:{node.links}", include "links.conf"\n'
            f"  routes: [{routes}] }}\n"
        )
        text = f"server_name: {node.name}\n" + server_configuration(
            f"{node.bound}:{node.port}", Path(there.state) / "jetstream"
        )
        for name, content in (
            ("domain.environment", f"HEALTH={node.health_address(0)}\n"),
            ("nats.conf", text + cluster * bool(others)),
            ("security.conf", security.configuration()),
            ("links.conf", links.configuration()),
        ):
            write_private(here / name, content.encode(), replace=True)
        for name in ("member-ca.pem", "link-ca.pem"):
            content = (self.folder.path / "tls" / name).read_text()
            write_private(here / "tls" / name, content.encode(), replace=True)

    def _empower(self, issuer: Issuer, node: Node, number: int, anew: bool) -> None:
        """Let a replica of a node connect and decide."""
        file = self._config(node) / f"pdp-{number}.json"
        if anew or not file.exists():
            self._grant(issuer, _replica(node, number), REPLICA, file)
        there = self.layout.on(node).config
        text = f"{VARIABLE}={there}/pdp-{number}.json\nHEALTH={node.health_address(number)}\n"
        write_private(self._config(node) / f"pdp-{number}.environment", text.encode(), replace=True)

    def _grant(self, issuer: Issuer, name: str, text: str, file: Path) -> None:
        identity = Identity.generate()
        certificate = issuer.grant(
            identity.public, parse_authority(text), Lifetime(time(), YEAR), delegate=text == OPERATOR
        )
        self.folder.replace(name)
        self.folder.grant(name, certificate)
        write_credentials(file, self.folder.credentials(issuer, identity, certificate, time()))

    def _place(self, node: Node) -> None:
        """Write its units, and the script that puts all in place."""
        path, there = self.path(node), self.layout.on(node)
        for name, text in node_units(there).items():
            (path / "units" / name).write_text(text)
        environment = f"{PASSPHRASE_FILE_VARIABLE}={there.config}/passphrase\n" if self.locked else ""
        write_private(self._config(node) / "environment", environment.encode(), replace=True)
        folders = {each: getattr(there, each) for each in FOLDERS}
        script = _INSTALL.format(
            node=node.name,
            services=" ".join(self.services(node)),
            locked=_LOCKED.format(config=there.config) if self.locked else "",
            **folders,
        )
        (path / "install.sh").write_text(script)

    @property
    def locked(self) -> bool:
        """Whether the service's key has a passphrase, which each node must be told."""
        return is_locked(read_private(self.folder.path / "service.key"))


def _replica(node: Node, number: int) -> str:
    return f"{node.name}-pdp-{number}"

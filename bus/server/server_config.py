"""A NATS server's configuration, so that it refuses strangers: who is let in, and how links are encrypted.

Three keys of the access control service stand in the configuration itself. With one it answers the server's
questions, with one it disconnects, with one it speaks to everybody else. All other connections are its to decide
on, but for those of other servers: they show a certificate and a secret that no member is ever given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from authz import Identity, PublicKey
from bus.identity import connection_key
from bus.server.callout_tokens import account_key

ACCOUNT = "APP"
"""The account that everybody is in."""
AUTHORIZATION_SECONDS = 1.5
"""How long a server waits for the decision on a connection; clients wait a little longer than that."""
TLS_SECONDS = 3
"""How long a server waits for the other end of a link to prove itself."""
LINK_USER = "server"
"""The user name with which servers connect to each other."""


@dataclass(frozen=True, slots=True)
class ServiceKeys:
    """The keys that an access control service uses on the bus. They follow from its own: there is one to keep."""

    issuer: Identity
    """Signs what the servers are told."""
    callout: Identity
    system: Identity
    member: Identity

    @classmethod
    def of(cls, service: Identity) -> ServiceKeys:
        names = ("callout issuer", "callout", "system", "member")
        return cls(*(Identity.from_seed(service.derive(f"bus {name}")) for name in names))

    def names(self) -> ServiceNames:
        connecting = map(connection_key, (self.callout, self.system, self.member))
        return ServiceNames(self.issuer.public, *(key.public for key in connecting))


@dataclass(frozen=True, slots=True)
class ServiceNames:
    """The keys in a server's configuration: who signs its answers, and with which keys the others connect."""

    issuer: PublicKey
    callout: PublicKey
    system: PublicKey
    member: PublicKey

    @property
    def account(self) -> str:
        """The account of the callout: one for each issuer, so that during a rotation the right one answers."""
        return f"AUTH_{str(self.issuer)[-16:]}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may take of a server."""

    connections: int = 10_000
    subscriptions: int = 200_000
    """A replica that serves many single objects has one for each."""
    token_bytes: int = 32 * 1024
    """The longest line of the protocol: a capability chain stands in one."""


@dataclass(frozen=True, slots=True)
class Links:
    """What servers show each other: on routes of a cluster, as gateways, as leaf nodes."""

    certificate: Path
    key: Path
    authorities: Path
    """Who certifies links between servers, and nothing else."""
    secret: str = field(repr=False)

    def configuration(self, account: str = "") -> str:
        """To stand inside `cluster` or `gateway`, or with the account that they are in, inside `leafnodes`."""
        its = f", account: {account}" if account else ""
        return (
            f"tls {{ {_tls(self.certificate, self.key, self.authorities)} }}\n"
            f'authorization {{ user: {LINK_USER}, password: "{self.secret}", timeout: {TLS_SECONDS}{its} }}\n'
        )

    def url(self, address: str) -> str:
        """How another server is named in a configuration, from its host and port."""
        return f"nats://{LINK_USER}:{self.secret}@{address}"


@dataclass(frozen=True, slots=True)
class Security:
    """Everything a server needs to know."""

    names: ServiceNames
    certificate: Path
    key: Path
    authorities: Path
    """Who certifies members."""
    links: Links
    limits: Limits = Limits()

    def configuration(self) -> str:
        """To be appended to a server's configuration."""
        names, limits = self.names, self.limits
        own = ", ".join(map(str, (names.callout, names.system, names.member)))
        return (
            f"max_connections: {limits.connections}\n"
            f"max_subscriptions: {limits.subscriptions}\n"
            f"max_control_line: {limits.token_bytes}\n"
            f"tls {{ {_tls(self.certificate, self.key, self.authorities)}, handshake_first: true }}\n"
            "accounts {\n"
            f"  {names.account} {{ users: [ {{ nkey: {names.callout} }} ] }}\n"
            f"  SYS {{ users: [ {{ nkey: {names.system} }} ] }}\n"
            f"  {ACCOUNT} {{ jetstream: enabled, users: [ {{ nkey: {names.member} }} ] }}\n"
            "}\n"
            "system_account: SYS\n"
            f"authorization {{ timeout: {AUTHORIZATION_SECONDS}, auth_callout {{"
            f" issuer: {account_key(names.issuer)}, account: {names.account}, auth_users: [ {own} ] }} }}\n"
        )


def _tls(certificate: Path, key: Path, authorities: Path) -> str:
    """Both ends show a certificate."""
    files = (("cert", certificate), ("key", key), ("ca", authorities))
    paths = ", ".join(f'{name}_file: "{path.resolve()}"' for name, path in files)
    return f'{paths}, verify: true, timeout: {TLS_SECONDS}, min_version: "1.3"'

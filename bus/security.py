"""A NATS server's configuration, so that it refuses strangers: who is let in, and how links are encrypted.

Three keys of the access control service stand in the configuration itself. With one it answers the server's
questions, with one it disconnects, with one it speaks to everybody else. All other connections are its to decide
on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from authz import Identity, PublicKey
from bus.callout import account_key
from bus.credentials import connection_key

ACCOUNT = "APP"
"""The account that everybody is in."""
AUTHORIZATION_SECONDS = 1.5
"""How long a server waits for the decision on a connection; clients wait a little longer than that."""


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
    """What a server is told of those keys: who signs its answers, and the keys by which the others connect."""

    issuer: PublicKey
    callout: PublicKey
    system: PublicKey
    member: PublicKey


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may take of a server."""

    connections: int = 10_000
    subscriptions: int = 200_000
    """A replica that serves many single objects has one for each."""
    token_bytes: int = 32 * 1024
    """The longest line of the protocol: a capability chain stands in one."""


@dataclass(frozen=True, slots=True)
class Security:
    """Everything a server needs to know."""

    names: ServiceNames
    certificate: Path
    key: Path
    authorities: Path
    limits: Limits = Limits()

    def configuration(self) -> str:
        """To be appended to a server's configuration."""
        names, limits = self.names, self.limits
        own = ", ".join(map(str, (names.callout, names.system, names.member)))
        return (
            f"max_connections: {limits.connections}\n"
            f"max_subscriptions: {limits.subscriptions}\n"
            f"max_control_line: {limits.token_bytes}\n"
            f"tls {{ {self._tls()}, handshake_first: true }}\n"
            "accounts {\n"
            f"  AUTH {{ users: [ {{ nkey: {names.callout} }} ] }}\n"
            f"  SYS {{ users: [ {{ nkey: {names.system} }} ] }}\n"
            f"  {ACCOUNT} {{ jetstream: enabled, users: [ {{ nkey: {names.member} }} ] }}\n"
            "}\n"
            "system_account: SYS\n"
            f"authorization {{ timeout: {AUTHORIZATION_SECONDS}, auth_callout {{"
            f" issuer: {account_key(names.issuer)}, account: AUTH, auth_users: [ {own} ] }} }}\n"
        )

    def cluster_tls(self) -> str:
        """To stand inside the configuration of a cluster: its links are verified at both ends."""
        return f"tls {{ {self._tls()} }}"

    def _tls(self) -> str:
        files = (("cert", self.certificate), ("key", self.key), ("ca", self.authorities))
        paths = ", ".join(f'{name}_file: "{path.resolve()}"' for name, path in files)
        return f'{paths}, verify: true, timeout: 3, min_version: "1.3"'

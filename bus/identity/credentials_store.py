"""Credentials in a file: everything a principal needs to connect, for its own eyes only.

One file holds the servers' address, the private key (encrypted or not), the capability chain, the TLS certificates
of the holder, those of the authorities that certify servers, and the keys whose word counts there. It is found by what
the environment says, or in the place where `authfabric up` leaves one.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import msgspec
from msgspec import structs

from authz import AuthFabricError, Identity, PublicKey
from authz.spki import Certificate, MalformedCertificate, decode_chain, encode_chain
from bus.errors import BadMessage, BusError
from bus.identity.credentials import Credentials
from bus.identity.keystore import (
    PASSPHRASE_VARIABLE,
    configured_passphrase,
    read_private,
    unlock,
    write_private,
)
from bus.identity.running_fabric import state_folder
from bus.wire import without_secrets

VARIABLE = "AUTHFABRIC_CREDENTIALS"


class CredentialsRefused(BusError):
    """A file of credentials that cannot be used: `problem` says why, and what to do."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"the credentials in `{path}` cannot be used: {problem}")
        self.path = path
        self.problem = problem


class CredentialsFile(msgspec.Struct, frozen=True):
    """What stands in the file, as JSON."""

    url: str
    key: str
    """PKCS#8 in PEM, as key files have it."""
    capability: str = ""
    """A chain, in its text form."""
    certificate: str = ""
    """The holder's TLS certificate, then those between it and the authorities; PEM."""
    authorities: str = ""
    """Who certifies servers; PEM. Without it, links are not encrypted."""
    trust: tuple[str, ...] = ()
    """The public keys whose word counts there: about releases, and about who may decide."""
    holding: str = ""
    """The links before the capability, by which its issuer holds what it grants; a chain in its text form."""


@dataclass(frozen=True, slots=True)
class Found:
    """Credentials, and the servers they are for."""

    url: str
    credentials: Credentials


def default_file() -> Path:
    """Where `authfabric up` leaves the credentials of whoever started it."""
    return state_folder() / "credentials.json"


def write_credentials(path: Path, file: CredentialsFile) -> None:
    """Write a file that nobody else can read, in place of one that is there. Raises KeyFileRefused."""
    write_private(path, msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n", replace=True)


def read_credentials(path: Path, passphrase: Callable[[], str] | None = None) -> Found:
    """Read a file of credentials. Raises CredentialsRefused."""
    try:
        file = msgspec.json.decode(read_private(path), type=CredentialsFile)
    except (msgspec.DecodeError, AuthFabricError) as error:
        raise CredentialsRefused(path, str(error)) from None
    found = parse_credentials(path, file, passphrase)
    return replace(found, credentials=replace(found.credentials, file=path))


def parse_credentials(
    path: Path, file: CredentialsFile, passphrase: Callable[[], str] | None = None
) -> Found:
    """The credentials that a file holds, on their own or among other things. Raises CredentialsRefused."""
    from authz.spki import parse_chain  # a grammar and X.509, which who has no credentials does not load
    from bus.identity.certificates import certificate_end

    try:
        identity = unlock(path, file.key.encode(), passphrase or _configured_passphrase)
        chain, holding = (
            encode_chain(parse_chain(each, str(path))) if each else b""
            for each in (file.capability, file.holding)
        )
        tls = client_context(identity, file.certificate, file.authorities) if file.authorities else None
        until = certificate_end(file.certificate) if tls is not None else None
        trust = frozenset(map(PublicKey.parse, file.trust))
    except (ssl.SSLError, AuthFabricError, MalformedCertificate) as error:
        raise CredentialsRefused(path, str(error)) from None
    return Found(file.url, Credentials(identity, chain, tls, until, None, trust, holding))


def keep_renewed(credentials: Credentials, certificate: str) -> None:
    """Put what was renewed into the file that it came from, each part if it lasts longer than what stands there.

    A file that somebody has put in its place, for another key, stays as it is. Raises CredentialsRefused.
    """
    from authz.spki import parse_chain, unparse_chain
    from bus.identity.certificates import certificate_end, certified_key

    path = credentials.file
    if path is None:
        return
    try:
        file = kept = msgspec.json.decode(read_private(path), type=CredentialsFile)
        if certified_key(file.certificate) != credentials.identity.public:
            return
        chain = decode_chain(credentials.chain)
        if chain_end(chain) > chain_end(parse_chain(file.capability)):
            kept = structs.replace(kept, capability=unparse_chain(chain))
        if certificate and certificate_end(certificate) > certificate_end(file.certificate):
            kept = structs.replace(kept, certificate=certificate)
        if kept != file:
            write_credentials(path, kept)
    except (msgspec.DecodeError, AuthFabricError) as error:
        raise CredentialsRefused(path, str(error)) from None


def chain_end(chain: Iterable[Certificate]) -> float:
    """When a chain ends, in Unix time, as far as its holder can tell. Raises MalformedCertificate."""
    ends = (link.unverified().validity.end for link in chain)
    return min((end for end in ends if end is not None), default=inf)


def find_credentials(url: str | None = None) -> Found | None:
    """The credentials that the environment names, or those that `up` left for its own server; None if there are none.

    Those that the environment names are for the servers in their file, and for any others that are said to encrypt
    their links. Elsewhere they are refused, and not left out: the link would be in clear, to whoever answers there.
    Raises CredentialsRefused.
    """
    named = os.environ.get(VARIABLE)
    path = Path(named) if named else default_file()
    if not named and not path.exists():
        return None
    found = read_credentials(path)
    if url is None or _same(url, found.url):
        return found
    if not named:
        return None
    if not all(each.startswith("tls://") for each in _each(url)):
        raise CredentialsRefused(
            path,
            f"they are for `{found.url}`, and not for `{without_secrets(url)}`: write `tls://` if its links are "
            f"encrypted, or unset {VARIABLE} to connect without them",
        )
    return found


def client_context(identity: Identity, certificates: str, authorities: str) -> ssl.SSLContext:
    """How a client speaks TLS: it shows its certificate, and takes only servers that an authority has certified."""
    context = ssl.create_default_context(cadata=authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    secret = secrets.token_hex(32)
    with tempfile.TemporaryDirectory(prefix="authfabric-tls-") as folder:
        # The library reads keys from files only, and this one may outlive the process: nobody can open it then.
        file = Path(folder, "key")
        file.touch(mode=0o600)
        file.write_bytes(identity.to_pem(secret.encode()) + certificates.encode())
        context.load_cert_chain(file, password=secret)
    return context


def with_certificate(credentials: Credentials, certificates: str) -> Credentials:
    """The same, with another TLS certificate of its holder; who certifies servers stays as it is. Raises BadMessage."""
    from bus.identity.certificates import certificate_end

    if credentials.tls is None:
        return credentials
    known = credentials.tls.get_ca_certs(binary_form=True)
    authorities = "".join(map(ssl.DER_cert_to_PEM_cert, known))
    until = certificate_end(certificates)
    try:
        tls = client_context(credentials.identity, certificates, authorities)
    except ssl.SSLError as error:
        raise BadMessage("certificate", f"does not fit: {error.reason}") from None
    return replace(credentials, tls=tls, tls_until=until)


def _configured_passphrase() -> str:
    passphrase = configured_passphrase()
    if passphrase is None:
        raise BusError(f"the key is encrypted: set {PASSPHRASE_VARIABLE}")
    return passphrase


def _same(one: str, other: str) -> bool:
    """Whether two addresses are of the same servers, or have some in common."""
    mine, its = ({url.rpartition("//")[2] for url in _each(each)} for each in (one, other))
    return bool(mine & its)


def _each(url: str) -> list[str]:
    return [each.strip() for each in url.split(",")]

"""TLS certificates over the keys that principals already have, so that a connection and its holder are one.

An authority certifies for one use only, and those below it for no other: members, servers, or the links between
servers. One for members can certify no host. Go and OpenSSL both enforce it: docs/design/authorities.md. Ed25519
throughout; what is not needed is left out, so that nothing has to be configured.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import cast

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from authz import Identity, PublicKey
from bus.errors import BadMessage

EARLY_SECONDS = 3600
"""Seconds by which certificates are antedated, for clocks that are behind."""
_EVERY_HOST = (
    x509.DNSName(""),
    x509.IPAddress(ipaddress.ip_network("0.0.0.0/0")),
    x509.IPAddress(ipaddress.ip_network("::/0")),
)
_UNREADABLE = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What reading a certificate raises that is none."""


class Purpose(Enum):
    """What certificates are for, by what TLS calls their extended key usage."""

    MEMBER = (ExtendedKeyUsageOID.CLIENT_AUTH,)
    SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)
    LINK = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    """Between servers, where either end may begin."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """From about now, a Unix time, for a number of seconds."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose certificate it is."""

    name: str
    key: PublicKey
    hosts: tuple[str, ...] = ()
    """The names and addresses of a server; none for a member."""
    purpose: Purpose = Purpose.MEMBER
    """What it is for; of an authority, what all that it certifies is for."""
    below: int | None = None
    """How many authorities may follow below this one; None if it is none itself."""

    @property
    def authority(self) -> bool:
        return self.below is not None


def certify(subject: Subject, issuer: Identity, issuer_name: str, lifetime: Lifetime) -> str:
    """A certificate in PEM. Whoever issues one for themselves makes the root of a chain."""
    key = Ed25519PublicKey.from_public_bytes(subject.key.raw)
    signer = _private(issuer)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject.name))
        .issuer_name(_name(issuer_name))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_time(lifetime.at - EARLY_SECONDS))
        .not_valid_after(_time(lifetime.at + lifetime.seconds))
        .add_extension(x509.BasicConstraints(subject.authority, subject.below), critical=True)
        .add_extension(_usage(subject.authority), critical=True)
        .add_extension(x509.ExtendedKeyUsage(subject.purpose.value), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if subject.authority and subject.purpose is Purpose.MEMBER:
        builder = builder.add_extension(x509.NameConstraints(None, _EVERY_HOST), critical=True)
    if subject.hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([*map(_host, subject.hosts)]), critical=False
        )
    return builder.sign(signer, None).public_bytes(serialization.Encoding.PEM).decode()


def certified_key(pem: str) -> PublicKey:
    """The key that a certificate is about. Raises BadMessage if it is none of ours."""
    try:
        key = x509.load_pem_x509_certificate(pem.encode()).public_key()
    except _UNREADABLE as error:
        raise BadMessage("certificate", f"cannot be read: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise BadMessage("certificate", "must be over an Ed25519 key")
    return PublicKey(key.public_bytes_raw())


def certificate_end(pem: str) -> float:
    """When the first of these certificates ends, in Unix time. Raises BadMessage."""
    try:
        return x509.load_pem_x509_certificate(pem.encode()).not_valid_after_utc.timestamp()
    except _UNREADABLE as error:
        raise BadMessage("certificate", f"cannot be read: {error}") from None


def certified_hosts(pem: str) -> tuple[str, ...]:
    """The names and addresses that the first of these certificates is for. Raises BadMessage."""
    try:
        extensions = x509.load_pem_x509_certificate(pem.encode()).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    except _UNREADABLE as error:
        raise BadMessage("certificate", f"cannot be read: {error}") from None
    return tuple(str(each.value) for each in names)


def _private(identity: Identity) -> Ed25519PrivateKey:
    return cast(Ed25519PrivateKey, serialization.load_pem_private_key(identity.to_pem(), None))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _host(text: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(text))
    return x509.DNSName(text)


def _usage(authority: bool) -> x509.KeyUsage:
    uses: Iterable[str] = ("key_cert_sign", "crl_sign") if authority else ("digital_signature",)
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: name in uses for name in names})

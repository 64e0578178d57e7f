"""The capability, SPKI's 5-tuple, and the certificate in which its issuer signs it.

A capability has one encoding, and only that one is accepted. So its hash is its name: no other spelling of
a revoked certificate escapes the revocation. A certificate carries that encoding as bytes, and `open` looks
into them only once the signature holds, so that a stranger's certificate costs one verification and no
more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from authz.crypto import Identity, PublicKey
from authz.errors import AuthFabricError, InvalidSignature
from authz.spki.authority import Authority
from authz.spki.errors import InvalidCapability, MalformedCertificate
from authz.spki.validity import ALWAYS, Validity

MAX_CAPABILITY_BYTES = 16 * 1024
MAX_CHAIN_BYTES = 512 * 1024
SIGNATURE_BYTES = 64
DOMAIN = b"authfabric capability 1\0"
"""Goes before what is signed, so that no signature made for another purpose serves as a certificate."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_T = TypeVar("_T")


class Capability(msgspec.Struct, frozen=True, array_like=True):
    """By the word of `issuer`, whoever proves to be `subject` has this authority while `validity` lasts."""

    issuer: PublicKey
    subject: PublicKey
    delegate: bool
    """Whether the subject may pass it on."""
    authority: Authority
    validity: Validity = ALWAYS

    def sign(self, issuer: Identity) -> Certificate:
        """Make the certificate. Raises InvalidSignature if it is not the issuer who signs."""
        if issuer.public != self.issuer:
            raise InvalidSignature
        body = _encode(self)
        return Certificate(body, issuer.sign(DOMAIN + body))


class _Heading(msgspec.Struct, frozen=True, array_like=True):
    """The part of a capability that says whose it is; what follows is skipped."""

    issuer: PublicKey


class Certificate(msgspec.Struct, frozen=True, array_like=True):
    """A capability, encoded, and its issuer's signature. Nothing of it is true before it is opened."""

    body: bytes
    signature: bytes

    def __post_init__(self) -> None:
        if len(self.signature) != SIGNATURE_BYTES:
            raise InvalidCapability("signature", f"must have {SIGNATURE_BYTES} bytes")

    @property
    def id(self) -> bytes:
        """The hash by which it is revoked. The signature is no part of it."""
        return hashlib.sha256(DOMAIN + self.body).digest()

    @property
    def issuer(self) -> PublicKey:
        """Who is said to have issued it. Raises MalformedCertificate."""
        return _read(self.body, _Heading, MAX_CAPABILITY_BYTES).issuer

    def open(self) -> Capability:
        """The capability, if its issuer signed it. Raises InvalidSignature or MalformedCertificate."""
        self.issuer.verify(self.signature, DOMAIN + self.body)
        return self.unverified()

    def unverified(self) -> Capability:
        """What is claimed: to be shown, never to be relied on. Raises MalformedCertificate."""
        return decode(self.body, Capability, MAX_CAPABILITY_BYTES)


def encode(value: object) -> bytes:
    """The one encoding of a value."""
    return _encode(value)


def decode(data: bytes, type_: type[_T], limit: int) -> _T:
    """Read what `encode` wrote. Raises MalformedCertificate for anything else, other spellings included."""
    value = _read(data, type_, limit)
    if _encode(value) != data:
        raise MalformedCertificate("it is not written in the one form that is signed")
    return value


def encode_chain(chain: Iterable[Certificate]) -> bytes:
    """The certificates of a chain, the owner's first."""
    return _encode(tuple(chain))


def decode_chain(data: bytes) -> tuple[Certificate, ...]:
    """Read what `encode_chain` wrote, looking into none of the certificates. Raises MalformedCertificate."""
    return decode(data, tuple[Certificate, ...], MAX_CHAIN_BYTES)


def _read(data: bytes, type_: type[_T], limit: int) -> _T:
    if len(data) > limit:
        raise MalformedCertificate(f"it has {len(data)} bytes, and at most {limit} are read")
    try:
        return msgspec.msgpack.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, AuthFabricError) as error:
        raise MalformedCertificate(str(error)) from error

"""What a principal connects with: its key, the capabilities it presents, and its end of an encrypted link.

A server chooses the nonce that a client signs, so the identity never signs one: a key derived for connecting does,
and the identity says once, under a prefix of its own, that this key speaks for it. What a false server has had signed
is good for nothing else.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from dataclasses import dataclass
from pathlib import Path

import msgspec

from authz import Identity, PublicKey
from authz.errors import InvalidKey, InvalidSignature
from authz.spki import MalformedCertificate

_PURPOSE = "nats connection"
_DOMAIN = b"authfabric connection key 1\0"


def connection_key(identity: Identity) -> Identity:
    """The key by which an identity connects. It signs nonces and nothing else, and follows from the identity."""
    return Identity.from_seed(identity.derive(_PURPOSE))


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key, by which its holder is known, a chain of certificates that ends with it, and TLS, if links have it."""

    identity: Identity
    chain: bytes = b""
    """As `encode_chain` wrote it."""
    tls: ssl.SSLContext | None = None
    tls_until: float | None = None
    """When its TLS certificate ends, in Unix time; None if that is not known."""
    file: Path | None = None
    """Where they came from: what is renewed is kept there."""
    trust: frozenset[PublicKey] = frozenset()
    """Whose word counts at the servers they are for: about releases, and about who may decide."""
    holding: bytes = b""
    """The links before the chain, by which its issuer holds what it grants."""

    @property
    def token(self) -> str:
        """What is sent when connecting, besides the connection key and its signature; empty without a chain."""
        return Presented.of(self.identity, self.chain).encode() if self.chain else ""


class Presented(msgspec.Struct, frozen=True, array_like=True):
    """Whom a connection key speaks for, and the capabilities of that holder, before either is verified."""

    holder: bytes
    """The public key of the identity."""
    binding: bytes
    """Its signature over the connection key."""
    chain: bytes

    @classmethod
    def of(cls, identity: Identity, chain: bytes) -> Presented:
        binding = identity.sign(_DOMAIN + connection_key(identity).public.raw)
        return cls(identity.public.raw, binding, chain)

    def encode(self) -> str:
        return base64.b64encode(msgspec.msgpack.encode(self)).decode()

    def verify(self, connection: PublicKey) -> PublicKey:
        """The holder, if it has bound this connection key. Raises InvalidSignature."""
        try:
            holder = PublicKey(self.holder)
        except InvalidKey:
            raise InvalidSignature from None
        holder.verify(self.binding, _DOMAIN + connection.raw)
        return holder


def read_token(token: str) -> Presented:
    """What was sent. Raises MalformedCertificate."""
    try:
        return msgspec.msgpack.decode(base64.b64decode(token, validate=True), type=Presented)
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError):
        raise MalformedCertificate("it must be a holder, its binding and its chain, in base64") from None

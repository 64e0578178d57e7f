"""Principals are Ed25519 keys, written in the text form NATS uses (nkeys).

What an identity signs begins with a prefix that says what it is, and nothing else begins with. Nothing is signed that
another party chose as a whole, and no secret comes of a signature: for another purpose there is `derive`.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Self

from cryptography.exceptions import InvalidSignature as _CryptographyInvalidSignature
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from authz.errors import InvalidKey, InvalidSignature

_USER_PREFIX = 20 << 3
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Who someone is, as others see it: 32 bytes, or 56 characters beginning with U."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != _KEY_BYTES:
            raise InvalidKey(f"an Ed25519 public key has {_KEY_BYTES} bytes, not {len(self.raw)}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the nkey text form, checking its prefix and checksum."""
        try:
            body = base64.b32decode(text + "=" * (-len(text) % 8))
        except (binascii.Error, ValueError) as error:
            raise InvalidKey(
                f"`{text}` is not a public key: it must be base32 text of 56 characters"
            ) from error
        if len(body) != _KEY_BYTES + 3 or body[0] != _USER_PREFIX:
            raise InvalidKey(f"`{text}` is not a public key: it must begin with U and have 56 characters")
        if _crc16(body[:-2]) != int.from_bytes(body[-2:], "little"):
            raise InvalidKey(f"`{text}` is not a public key: its checksum does not fit (a typing error?)")
        return cls(body[1:-2])

    def verify(self, signature: bytes, message: bytes) -> None:
        """Raise InvalidSignature unless this key signed exactly this message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (_CryptographyInvalidSignature, ValueError):
            raise InvalidSignature from None

    def __str__(self) -> str:
        body = bytes([_USER_PREFIX]) + self.raw
        return base64.b32encode(body + _crc16(body).to_bytes(2, "little")).decode().rstrip("=")


class Identity:
    """A principal's own key pair. It signs; it never shows its private half in text or logs."""

    __slots__ = ("_private", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = PublicKey(private.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> Self:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        if len(seed) != _KEY_BYTES:
            raise InvalidKey(f"an Ed25519 seed has {_KEY_BYTES} bytes, not {len(seed)}")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def from_pem(cls, pem: bytes, passphrase: bytes | None = None) -> Self:
        """Read a PKCS#8 private key, decrypting it if a passphrase is given."""
        from cryptography.hazmat.primitives import serialization  # SSH keys and more, for who reads a file

        try:
            private = serialization.load_pem_private_key(pem, passphrase)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise InvalidKey(
                "the key file cannot be read: wrong passphrase, or not a PKCS#8 PEM file"
            ) from error
        if not isinstance(private, Ed25519PrivateKey):
            raise InvalidKey("the key file holds another kind of key: Ed25519 is expected")
        return cls(private)

    def to_pem(self, passphrase: bytes | None = None) -> bytes:
        """The private key as PKCS#8, encrypted if a passphrase is given."""
        from cryptography.hazmat.primitives import serialization

        encryption: serialization.KeySerializationEncryption = (
            serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        )
        return self._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def derive(self, purpose: str) -> bytes:
        """Thirty-two secret bytes for another purpose, always the same, that reveal nothing of this key."""
        info = f"authfabric {purpose} 1\0".encode()
        return HKDF(SHA256(), _KEY_BYTES, salt=None, info=info).derive(self._private.private_bytes_raw())

    def __repr__(self) -> str:
        return f"Identity({self.public})"


def _crc16(data: bytes) -> int:
    """CRC-16/XMODEM, the checksum inside nkeys."""
    return binascii.crc_hqx(data, 0)

"""From one secret to many: every key in this package is derived here, each for one purpose.

HKDF (RFC 5869) with SHA-256. The purpose goes into `info`, so no key derived for one thing serves another.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
SALT_BYTES = 16


def derive(secret: bytes | bytearray, purpose: str, context: bytes = b"", salt: bytes = b"") -> bytes:
    """A key for this purpose alone; whoever has it learns nothing about the secret."""
    info = b"authfabric " + purpose.encode() + b" 1\0" + context
    return HKDF(SHA256(), KEY_BYTES, salt or None, info).derive(bytes(secret))


def wipe(secret: bytearray) -> None:
    """Overwrite a secret in place. Copies that others have made of it are out of reach."""
    secret[:] = bytes(len(secret))

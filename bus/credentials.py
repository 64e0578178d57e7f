"""What a principal connects with: its key, the capabilities it presents, and its end of an encrypted link."""

from __future__ import annotations

import base64
import binascii
import ssl
from dataclasses import dataclass
from pathlib import Path

from authz import Identity
from authz.spki import MalformedCertificate


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

    @property
    def token(self) -> str:
        """The chain as it is sent when connecting."""
        return base64.b64encode(self.chain).decode()


def read_token(token: str) -> bytes:
    """The chain that was sent. Raises MalformedCertificate."""
    try:
        return base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedCertificate("it must be in base64") from None

"""Closing the certificate loop: the holder of a chain proves to be its subject before the chain is honoured.

The verifier sends a challenge that was never sent before; the holder signs it together with the verifier's
name, so that a proof made for one verifier is of no use at another.
"""

from __future__ import annotations

import msgspec

from authz.crypto import Identity, PublicKey
from authz.spki.capability import Capability, encode
from authz.spki.errors import InvalidCapability

NONCE_BYTES = 32
_DOMAIN = b"authfabric certificate loop 1\0"


class Challenge(msgspec.Struct, frozen=True, array_like=True):
    """What a verifier asks to have signed: its own key, and bytes drawn at random for this once."""

    verifier: PublicKey
    nonce: bytes

    def __post_init__(self) -> None:
        if len(self.nonce) != NONCE_BYTES:
            raise InvalidCapability("challenge", f"must have {NONCE_BYTES} random bytes")


def prove(challenge: Challenge, holder: Identity) -> bytes:
    """The holder's answer."""
    return holder.sign(_DOMAIN + encode(challenge))


def close(capability: Capability, challenge: Challenge, proof: bytes) -> None:
    """Raise InvalidSignature unless the capability's subject answered this challenge."""
    capability.subject.verify(proof, _DOMAIN + encode(challenge))

"""How a decider introduces itself: who it is, how to agree on a key with it, and what it may decide.

Invariant: what `verify` returns was granted, link by link, by an owner that the verifier names, to the key
that signed this agreement key, with this chain, at this time. So a chain that was copied introduces nobody but the one
it was issued to, and parts of two introductions make no third.
"""

from __future__ import annotations

from typing import Self

import msgspec

from authz.crypto import AgreementKey, Identity, PublicKey
from authz.errors import InvalidKey, InvalidSignature
from authz.spki.capability import Certificate, encode_chain
from authz.spki.errors import ChainRefused, Fault
from authz.spki.reduction import Reduced
from authz.spki.verifier import Verifier

MAX_BYTES = 64 * 1024
_DOMAIN = b"authfabric introduction 2\0"

_encode = msgspec.msgpack.Encoder().encode


class Introduction(msgspec.Struct, frozen=True, array_like=True):
    """What a decider shows to whoever might believe its answers. Nothing of it is true before it is verified."""

    key: bytes
    """The decider's identity."""
    agreement: bytes
    """Its agreement key."""
    signature: bytes
    """By the identity, over all the rest."""
    chain: bytes
    """Its capabilities, as they go over the wire."""
    at: float
    """When it was made, by the decider's clock: of two, the later one counts."""

    @classmethod
    def of(cls, identity: Identity, chain: tuple[Certificate, ...], at: float) -> Self:
        unsigned = cls(identity.public.raw, AgreementKey.of(identity).public, b"", encode_chain(chain), at)
        return msgspec.structs.replace(unsigned, signature=identity.sign(unsigned.signed()))

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read what `encode` wrote. Raises InvalidSignature: what cannot be read is not well signed either."""
        try:
            if len(data) > MAX_BYTES:
                raise InvalidSignature
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise InvalidSignature from None

    def encode(self) -> bytes:
        return _encode(self)

    def signed(self) -> bytes:
        """What the identity signs."""
        return _DOMAIN + _encode((self.key, self.agreement, self.chain, self.at))

    def verify(self, verifier: Verifier, at: float) -> Reduced:
        """What it may decide. Raises ChainRefused, MalformedCertificate or InvalidSignature.

        The chain comes first: whoever holds nothing here is refused before a signature has to be looked at.
        """
        reduced = verifier.verify(self.chain, at)
        subject = reduced.capability.subject
        if subject.raw != self.key:
            raise ChainRefused(0, Fault.NOT_THE_HOLDER, f"was issued to `{subject}`, who is another")
        try:
            PublicKey(self.key).verify(self.signature, self.signed())
        except InvalidKey:
            raise InvalidSignature from None
        return reduced

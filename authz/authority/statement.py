"""What a PDP has decided, signed for anyone to verify: many decisions under one signature.

Invariant: a decision that `Statement.vouches` for was decided for exactly this request, in this domain, by
whoever signed the statement. The signature says nothing about who asked, or whether the signer may decide
that: whoever relies on it looks at the signer's authority too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec

from authz.crypto import Identity, PublicKey, Tree, includes, leaf_hash
from authz.decision import Decision
from authz.errors import InvalidKey, InvalidSignature
from authz.request import Request

MAX_DECISIONS = 4096
_DOMAIN = b"authfabric statement 1\0"

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """`signer` decided, in `domain` and by the time `at`, the `count` things under the Merkle root."""

    signer: bytes
    domain: str
    at: float
    count: int
    root: bytes
    signature: bytes = b""

    @classmethod
    def sign(cls, identity: Identity, domain: str, at: float, leaves: Sequence[bytes]) -> tuple[Self, Tree]:
        """Make one, from the hashes of the decisions; the tree has their proofs."""
        tree = Tree(leaves)
        unsigned = cls(identity.public.raw, domain, at, len(leaves), tree.root)
        return msgspec.structs.replace(unsigned, signature=identity.sign(unsigned._signed())), tree

    def verify(self) -> None:
        """Raise InvalidSignature unless the signer signed exactly this."""
        try:
            PublicKey(self.signer).verify(self.signature, self._signed())
        except InvalidKey:
            raise InvalidSignature from None

    def vouches(self, request: Request, decision: Decision, index: int, proof: Sequence[bytes]) -> bool:
        """Whether this is number `index` of what is stated. The signature is another matter."""
        return includes(self.root, self.count, index, decision_hash(request, decision), proof)

    def _signed(self) -> bytes:
        return _DOMAIN + _encode((self.signer, self.domain, self.at, self.count, self.root))


def decision_hash(request: Request, decision: Decision) -> bytes:
    """The leaf that stands for a decision."""
    return leaf_hash(_encode((request, decision)))

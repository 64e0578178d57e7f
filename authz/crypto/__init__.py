"""Keys and what is made with them: identities, seals, key agreement and Merkle trees."""

from authz.crypto.agreement import KEY_BYTES, TAG_BYTES, AgreementKey, AnswerMac
from authz.crypto.identity import Identity, PublicKey
from authz.crypto.merkle import Tree, includes, leaf_hash
from authz.crypto.seal import Opened, Seal, UntrustedSigner

__all__ = [
    "KEY_BYTES", "TAG_BYTES", "AgreementKey", "AnswerMac", "Identity", "Opened", "PublicKey", "Seal",
    "Tree", "UntrustedSigner", "includes", "leaf_hash",
]  # fmt: skip

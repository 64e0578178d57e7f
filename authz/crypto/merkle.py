"""Merkle trees: one signature for many statements, and short proofs that one statement is among them.

The tree is that of Certificate Transparency (RFC 6962, section 2.1), over SHA-256. Leaves and inner nodes are
hashed with different first bytes, so that no inner node passes for a statement. Invariant: if `includes` says
yes, then whoever computed the root had this leaf at this place among `size` leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

HASH_BYTES = 32
_EMPTY = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    return hashlib.sha256(b"\0" + data).digest()


class Tree:
    """All levels of a tree over the hashes of its leaves, the leaves first, the root last."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._levels = [list(leaves)]
        while len(self._levels[-1]) > 1:
            self._levels.append(_above(self._levels[-1]))

    @property
    def root(self) -> bytes:
        return self._levels[-1][0] if self._levels[-1] else _EMPTY

    def proof(self, index: int) -> tuple[bytes, ...]:
        """The siblings on the way from a leaf to the root; where there is none, none is needed."""
        path = []
        for level in self._levels[:-1]:
            sibling = index ^ 1
            if sibling < len(level):
                path.append(level[sibling])
            index >>= 1
        return tuple(path)


def includes(root: bytes, size: int, index: int, leaf: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the leaf with this hash is number `index`, from 0, of the `size` leaves under the root."""
    if not 0 <= index < size:
        return False
    found, path = leaf, iter(proof)
    last = size - 1
    while last:
        if index ^ 1 <= last:
            sibling = next(path, None)
            if sibling is None or len(sibling) != HASH_BYTES:
                return False
            found = _node(sibling, found) if index & 1 else _node(found, sibling)
        index, last = index >> 1, last >> 1
    return next(path, None) is None and found == root


def _above(level: Sequence[bytes]) -> list[bytes]:
    """The next level: pairs are joined, and who has no sibling moves up as it is."""
    joined = [_node(level[n], level[n + 1]) for n in range(0, len(level) - 1, 2)]
    return [*joined, level[-1]] if len(level) % 2 else joined


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()

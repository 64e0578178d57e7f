"""A verifier of chains that remembers what it has verified.

The cache is keyed by the hash of the whole chain, signatures included, and holds as many chains as it has
room for. It remembers only what no time can change: that the signatures hold, and what they amount to.
Whether each link is valid and not revoked is looked at anew each time, so no entry needs voiding for a
revocation to count.
"""

from __future__ import annotations

import hashlib

from cachetools import LRUCache

from authz.spki.capability import decode_chain
from authz.spki.ownership import Owners
from authz.spki.reduction import MAX_LINKS, Reduced, verify
from authz.spki.revocation import Notice, Revocations


class Verifier:
    """Verifies chains as they come over the wire, by one set of owners and all revocations heard."""

    def __init__(self, owners: Owners, *, size: int = 4096, max_links: int = MAX_LINKS) -> None:
        self.owners = owners
        self.revocations = Revocations()
        self._max_links = max_links
        self._reductions: LRUCache[bytes, Reduced] = LRUCache(size)

    def verify(self, chain: bytes, at: float) -> Reduced:
        """Find a chain sound at this time, or raise MalformedCertificate or ChainRefused."""
        key = hashlib.sha256(chain).digest()
        reduced = self._reductions.get(key)
        if reduced is None:
            reduced = verify(decode_chain(chain), self.owners, at, self.revocations, self._max_links)
            self._reductions[key] = reduced
        else:
            reduced.check(at, self.revocations)
        return reduced

    def accept(self, notice: Notice, at: float) -> None:
        """Heed a revocation from now on. Raises InvalidSignature if its issuer did not sign it."""
        self.revocations.accept(notice)
        self.revocations.forget(at)

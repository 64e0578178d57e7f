"""Whose definition a name means: the owner's key is the root of a type's name, and a domain says whom it trusts.

The full name of a type is its owner's key and then its name (Pesonen, Eyers and Bacon, section II-B), so anybody may
call a type as they like without being in anybody's way. A name alone means the type of the owner that is trusted with
the longest prefix of it, or of somebody whom that owner lets define it by a certificate that comes with the definition.
Invariant: what a name means depends on who is trusted with it, never on who was first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from authz import PublicKey
from authz.spki import (
    ChainRefused,
    Kind,
    MalformedCertificate,
    Owners,
    Resource,
    Revocations,
    Right,
    decode_chain,
    verify,
)
from pubsub_core.types.signature import SignedType

EVERY = "*"
"""The pattern of all names."""


class Names:
    """Who is trusted with which names, by patterns as capabilities have them: `uk.gov.pito.*`, a whole name, or `*`."""

    def __init__(self, entries: Iterable[tuple[str, PublicKey]]) -> None:
        """Raises InvalidCapability for a pattern that no name can match."""
        self._owners: dict[str, set[PublicKey]] = defaultdict(set)
        for pattern, key in entries:
            self._owners[Resource(Kind.TYPE, pattern).pattern].add(key)

    def owners(self, name: str) -> frozenset[PublicKey]:
        """Those who are trusted with the longest pattern that this name matches."""
        words = name.split(".")
        below = (".".join([*words[:count], EVERY]) for count in range(len(words) - 1, -1, -1))
        found = next((each for each in (name, *below) if each in self._owners), None)
        return frozenset(self._owners[found]) if found is not None else frozenset()

    def standing(self, signed: SignedType, at: float, revocations: Revocations) -> int | None:
        """How well a definition's owner is trusted with its name: the more the better, None for not at all.

        Whoever is trusted with the name stands above all whom they let define it, and of those the one with the longest
        prefix stands highest.
        """
        definition = signed.definition
        owners = self.owners(definition.name)
        if definition.owner_key in owners:
            return len(definition.name) + 1
        found = [
            standing
            for chain in signed.install
            for owner in owners
            if (standing := _granted(chain, owner, signed, at, revocations)) is not None
        ]
        return max(found, default=None)


def _granted(
    chain: bytes, by: PublicKey, signed: SignedType, at: float, revocations: Revocations
) -> int | None:
    """The length of the prefix that this owner lets the definition's owner define; None if it does not."""
    definition = signed.definition
    # It is trusted with this name, and that is all that is asked about.
    owners = Owners([(Resource(Kind.TYPE, EVERY), by)])
    try:
        capability = verify(decode_chain(chain), owners, at, revocations).capability
    except (ChainRefused, MalformedCertificate):
        return None
    if capability.subject != definition.owner_key:
        return None
    grants = capability.authority.select(Right.DEFINE, definition.name)
    return max((len(grant.resource.pattern) for grant in grants), default=None)


def below(prefix: str, key: PublicKey) -> tuple[tuple[str, PublicKey], ...]:
    """What trusts a key with a name and all that lies below it."""
    return ((prefix, key),) if prefix.endswith(EVERY) else ((prefix, key), (f"{prefix}.{EVERY}", key))

"""Policies of types: what the owner of a type says about who may use it and how, signed by the owner.

Invariants: a policy counts for the types that its signer owns, and no others; a later one of a type takes the place of
an earlier one, and never the other way round. Whoever stores or tells a policy cannot alter it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from authz import Identity
from authz.crypto import Seal
from authz.errors import InvalidSignature
from pubsub_core.types.registry import Catalogue

MAX_POLICY_BYTES = 512 * 1024
"""Maximum bytes of an owner's policy: it travels in one message."""
MAX_UNKNOWN = 1024
"""Maximum policies kept for types whose definition has not come yet."""


class OwnerPolicy(msgspec.Struct, frozen=True):
    """From now on this bundle binds whoever uses the type, besides what their own domains say."""

    type: str
    """The type's UUID."""
    at: float
    """Unix time, by the owner's clock: of two the later counts."""
    bundle: bytes
    """Policy files, packed; nothing if the owner has nothing more to say."""
    forced: str = ""
    """Why they allow everything to everyone, if they do."""


POLICY = Seal("type policy", OwnerPolicy)


def sign_policy(policy: OwnerPolicy, owner: Identity) -> bytes:
    return POLICY.sign(policy, owner)


class OwnerPolicies:
    """The newest policy of each type."""

    def __init__(self, catalogue: Catalogue, on_change: Callable[[str], None]) -> None:
        """`on_change` is told of each type with another policy."""
        self._catalogue = catalogue
        self._on_change = on_change
        self._found: dict[str, tuple[OwnerPolicy, bytes]] = {}
        self._unknown: dict[bytes, None] = {}

    def __iter__(self) -> Iterator[bytes]:
        """Every policy that is in force, as its owner signed it."""
        return (data for _, data in self._found.values())

    def of(self, type_: str) -> OwnerPolicy | None:
        """What the owner of a type says, if anything."""
        found = self._found.get(type_)
        return found[0] if found is not None else None

    def accept(self, data: bytes) -> bool:
        """Take a policy in; whether it is news. Raises InvalidSignature if it is not its owner's."""
        opened = POLICY.read(data)
        policy = opened.value
        if not self._catalogue.knows(policy.type):
            self._unknown[data] = None
            if len(self._unknown) > MAX_UNKNOWN:
                del self._unknown[next(iter(self._unknown))]
            return False
        if str(opened.signer) != self._catalogue.newest(policy.type).owner:
            raise InvalidSignature
        before = self._found.get(policy.type)
        if before is not None and before[0].at >= policy.at:
            return False
        self._found[policy.type] = policy, data
        self._on_change(policy.type)
        return True

    def look_again(self) -> None:
        """Definitions may have come."""
        waiting, self._unknown = self._unknown, {}
        for data in waiting:
            try:
                self.accept(data)
            except InvalidSignature:
                continue

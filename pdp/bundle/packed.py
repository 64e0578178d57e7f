"""Policies packed: compiled once, elsewhere, as data that is opened at once and read where requests need it.

Everything was read and checked when it was packed. It is data and never code: whoever opens it runs nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import msgspec

from pdp.abac import PackedSource, Policy
from pdp.bundle.bundle import Bundle, File, FileKind

_encode = msgspec.msgpack.Encoder().encode
_policy = msgspec.msgpack.Decoder(Policy).decode


class PackedPolicies(msgspec.Struct, frozen=True, array_like=True):
    """The policies of a bundle, as a replica needs them."""

    bundle: bytes
    """All files, packed: for what looks at them as they were written."""
    others: tuple[File, ...]
    """The files without attribute policies, which are few and read as they are."""
    policies: list[bytes]
    """Each attribute policy."""
    source: PackedSource
    needs: bytes = b""
    """The index of what needs attributes that are looked up; empty if none are."""

    def files(self) -> list[File]:
        """The files with attribute policies."""
        return [each for each in Bundle.unpack(self.bundle).files if each.kind is FileKind.ABAC]


class PolicyList(Sequence[Policy]):
    """Policies that are decoded one by one, whenever they are looked at."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._packed = packed

    @overload
    def __getitem__(self, place: int) -> Policy: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Policy]: ...
    def __getitem__(self, place: int | slice) -> Policy | Sequence[Policy]:
        found = self._packed[place]
        return _policy(found) if isinstance(found, bytes) else PolicyList(found)

    def __iter__(self) -> Iterator[Policy]:
        return map(_policy, self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def pack_policy(policy: Policy) -> bytes:
    return _encode(policy)

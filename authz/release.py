"""Releases: the signed statements by which policies come into force in a domain, one after the other.

A release is its hash: number, signer, content and the hash of the release before it (a hash chain), so that history
cannot be altered unseen. Its number is the epoch. It says what it may change, so that caches forget only that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

import msgspec

from authz.change import Effect, PolicyChange
from authz.crypto import Identity, PublicKey, Seal
from authz.errors import AuthFabricError, InvalidSignature


class ReleaseRefused(AuthFabricError):
    """A release that must not come into force: `epoch` is its number, 0 if unknown; `problem` says why."""

    def __init__(self, epoch: int, problem: str) -> None:
        super().__init__(f"{f'release {epoch}' if epoch else 'a release'} is refused: {problem}")
        self.epoch = epoch
        self.problem = problem


class Release(msgspec.Struct, frozen=True):
    """From now on this bundle is in force in this domain."""

    domain: str
    sequence: int
    """The epoch: releases of a domain are numbered from 1, without gaps."""
    bundle: str
    """The hash of the bundle, in hexadecimal."""
    chunks: tuple[str, ...]
    """Where its bytes are in the store: the hashes of its pieces, in order."""
    at: float
    """Unix time, by the clock of whoever released it."""
    name: str = ""
    message: str = ""
    before: str = ""
    """The hash of the release before, signature and all; empty if this is the first."""
    effects: tuple[Effect, ...] = ()
    whole: bool = False
    """Nothing is known about what this changes: everything may be different."""
    hierarchy: dict[str, tuple[str, ...]] = {}
    """The role hierarchy from now on, each role with those directly below it."""
    rearranged: bool = False
    """Whether the hierarchy is another than before."""
    forced: str = ""
    """Why policies that allow everything to everyone, or none at all, were released all the same; else empty."""
    joins: tuple[str, ...] = ()
    """The hashes of other releases that this one stands for from now on: where a store was restored, lines part."""

    @property
    def change(self) -> PolicyChange:
        """The step from the release before to this one."""
        juniors = self.hierarchy if self.rearranged or self.whole else None
        return PolicyChange(self.sequence, self.sequence - 1, self.effects, self.whole, juniors)


class Preparation(msgspec.Struct, frozen=True):
    """A bundle that is about to be released in this domain: it brings nothing into force."""

    domain: str
    bundle: str
    """The hash of the bundle, in hexadecimal."""
    chunks: tuple[str, ...]
    before: str
    """The hash of the release that it will follow; empty if there is none."""


PREPARATION = Seal("preparation", Preparation)
_SEAL = Seal("release", Release)


def sign_release(release: Release, identity: Identity) -> bytes:
    return _SEAL.sign(release, identity)


def peek_release(data: bytes) -> Release | None:
    """What is said to have been released, unverified; None if this is no release at all."""
    try:
        return _SEAL.peek(data).value
    except InvalidSignature:
        return None


def release_hash(data: bytes) -> str:
    """How the next release names one, given as it is stored."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Released:
    """A release, its signature verified."""

    release: Release
    signer: PublicKey
    hash: str

    @classmethod
    def open(cls, data: bytes, domain: str, trusted: Collection[PublicKey]) -> Self:
        """Raises ReleaseRefused unless a trusted key signed this for this domain."""
        try:
            release, signer = _SEAL.open(data, trusted)
        except AuthFabricError as error:
            raise ReleaseRefused(0, str(error)) from None
        if release.domain != domain:
            problem = f"it was made for the domain `{release.domain}`, not `{domain}`"
            raise ReleaseRefused(release.sequence, problem)
        return cls(release, signer, release_hash(data))

    @property
    def epoch(self) -> int:
        return self.release.sequence

    @property
    def change(self) -> PolicyChange:
        return self.release.change

    def __str__(self) -> str:
        return f"release {self.epoch} ({self.hash[:12]})"

    def follows(self, earlier: Released) -> bool:
        """Whether this is the very next release after the other, or joins its line with another."""
        if earlier.hash in self.release.joins:
            return self.epoch > earlier.epoch
        return self.succeeds(earlier)

    def succeeds(self, earlier: Released) -> bool:
        """Whether this was made from the other, so that its effects are the step between the two."""
        return self.release.before == earlier.hash and self.epoch == earlier.epoch + 1

    @property
    def predecessors(self) -> tuple[str, ...]:
        """The hashes of the releases that this one takes the place of."""
        return tuple(filter(None, (self.release.before, *self.release.joins)))

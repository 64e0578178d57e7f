"""Releases: the signed statements by which policies come into force in a domain, one after the other.

The store gives each release its epoch. A release names the one before it by its hash (a hash chain), so that history
cannot be altered unseen, and says what it may change, so that caches forget only that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

import msgspec

from authz.change import Effect, PolicyChange
from authz.errors import AuthFabricError
from authz.identity import Identity, PublicKey
from authz.seal import Seal


class ReleaseRefused(AuthFabricError):
    """A release that must not come into force: `epoch` is its place in the store, `problem` says why."""

    def __init__(self, epoch: int, problem: str) -> None:
        super().__init__(f"release {epoch} is refused: {problem}")
        self.epoch = epoch
        self.problem = problem


class Release(msgspec.Struct, frozen=True):
    """From now on this bundle is in force in this domain."""

    domain: str
    sequence: int
    """Releases of a domain are numbered from 1, without gaps."""
    bundle: str
    """The hash of the bundle, in hexadecimal."""
    chunks: tuple[str, ...]
    """Where its bytes are in the store: the hashes of its pieces, in order."""
    at: float
    """Unix time, by the clock of whoever released it."""
    name: str = ""
    message: str = ""
    previous: int = 0
    """The epoch of the release before; 0 if this is the first."""
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
    """Why policies that allow everything to everyone were released all the same; empty if these do not."""

    def change(self, epoch: int) -> PolicyChange:
        """What the release does, once the store has given it an epoch."""
        juniors = self.hierarchy if self.rearranged or self.whole else None
        return PolicyChange(epoch, self.previous, self.effects, self.whole, juniors)


_SEAL = Seal("release", Release)


def sign_release(release: Release, identity: Identity) -> bytes:
    return _SEAL.sign(release, identity)


def release_hash(data: bytes) -> str:
    """How the next release names one, given as it is stored."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Released:
    """A release as it stands in the store, its signature verified."""

    epoch: int
    release: Release
    signer: PublicKey
    hash: str

    @classmethod
    def open(cls, epoch: int, data: bytes, domain: str, trusted: Collection[PublicKey]) -> Self:
        """Raises ReleaseRefused unless a trusted key signed this for this domain."""
        try:
            release, signer = _SEAL.open(data, trusted)
        except AuthFabricError as error:
            raise ReleaseRefused(epoch, str(error)) from None
        if release.domain != domain:
            raise ReleaseRefused(epoch, f"it was made for the domain `{release.domain}`, not `{domain}`")
        return cls(epoch, release, signer, release_hash(data))

    @property
    def change(self) -> PolicyChange:
        return self.release.change(self.epoch)

    def follows(self, earlier: Released) -> bool:
        """Whether this is the very next release after the other."""
        return self.release.before == earlier.hash and self.release.sequence == earlier.release.sequence + 1

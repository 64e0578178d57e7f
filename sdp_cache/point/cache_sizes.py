"""How much is recycled, and in which ways: without the caches, which who always asks does not load."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recycling:
    """Which ways are used, each with how much it may hold; 0 switches it off.

    What holds more than a KiB counts several times, so that a size is a bound in memory, too.
    """

    precise: int = 100_000
    """Requests."""
    saam_rbac: int = 100_000
    """Permissions; one of which much was learned counts for some."""
    saam_blp: int = 4096
    """Subjects and objects."""
    certificates: int = 100_000
    """Places of certificates."""

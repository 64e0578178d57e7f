"""One point of the availability experiment: how many PDPs, how they overlap, how they fail, how they are asked."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from pep.asking import RETRY_SECONDS, Strategy

Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Span = Annotated[float, msgspec.Meta(gt=0.0)]


class Cache(enum.StrEnum):
    """What the PEP recycles: nothing, the same question, or (SAAM-RBAC) any question of the same roles."""

    NONE = "none"
    PRECISE = "precise"
    ROLES = "roles"


class Counted(enum.StrEnum):
    """From where a time to failure is counted. The paper says "the time between two consequent failures"."""

    FROM_REPAIR = "from-repair"
    """From the end of one failure to the start of the next: how long a PDP works."""
    FROM_FAILURE = "from-failure"
    """From the start of one failure to the start of the next: the repair is part of it."""


class Spaces(enum.StrEnum):
    """Which objects the others serve of the first PDP's. The paper says how many, and not which."""

    INDEPENDENT = "independent"
    """Each other PDP serves a part of its own."""
    CORE = "core"
    """All others serve the same part."""


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What is varied. Times are counted in requests, as in the paper."""

    pdps: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 4
    overlap: Share = 0.1
    """The share of the first PDP's objects that each other PDP serves too."""
    mttf: Span = 100.0
    mttr: Span = 10.0
    common: Share = 0.0
    """The share of a PDP's time in failure that strikes all PDPs at once (the beta factor)."""
    strategy: Strategy = Strategy.FLOOD
    cache: Cache = Cache.NONE
    counted: Counted = Counted.FROM_REPAIR
    spaces: Spaces = Spaces.INDEPENDENT

    @property
    def unavailability(self) -> float:
        """The share of time in which one PDP fails."""
        cycle = self.mttf if self.counted is Counted.FROM_FAILURE else self.mttf + self.mttr
        return self.mttr / cycle

    @property
    def common_unavailability(self) -> float:
        """The share of time in which what all PDPs depend on fails."""
        return self.common * self.unavailability

    @property
    def own_unavailability(self) -> float:
        """The share of the remaining time in which one PDP fails by itself."""
        shared = self.common_unavailability
        return (self.unavailability - shared) / (1 - shared)

    @property
    def sample(self) -> str:
        """What of the cell shapes failures and object spaces: equal samples fail alike, however they are asked."""
        words = [str(self.pdps), *map(repr, (self.overlap, self.mttf, self.mttr, self.common))]
        if self.counted is not Counted.FROM_REPAIR:
            words.append(self.counted)
        if self.spaces is not Spaces.INDEPENDENT:
            words.append(self.spaces)
        return " ".join(words)

    def __str__(self) -> str:
        return (
            f"{self.pdps} PDP{'s' * (self.pdps != 1)}, overlap {self.overlap:g}, MTTF {self.mttf:g} {self.counted},"
            f" MTTR {self.mttr:g}, {self.common:g} in common, {self.strategy}, cache {self.cache}, {self.spaces} spaces"
        )


class Population(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Who asks about what in one run. Each subject has one role; what a role may do is drawn at random."""

    requests: Count = 5_000
    objects: Count = 200
    subjects: Count = 100
    roles: Count = 10
    deadline: Annotated[float, msgspec.Meta(gt=0.0, le=60.0)] = 1.0
    """Seconds after which a PEP gives up, and so how often it has asked by then."""

    @property
    def attempts(self) -> int:
        """How often a PEP asks before it gives up: after each wait, which doubles, once more."""
        sent, at = 0, 0.0
        while at < self.deadline:
            at += RETRY_SECONDS * 2**sent
            sent += 1
        return sent

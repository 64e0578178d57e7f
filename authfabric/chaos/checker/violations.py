"""What a record can show to have gone wrong."""

from __future__ import annotations

import enum

import msgspec


class Kind(enum.StrEnum):
    """A promise that was broken."""

    WRONG_ALLOW = "wrong_allow"
    """Allowed, and no release in force permitted it."""
    WRONG_DENY = "wrong_deny"
    """Denied by a release that permits it."""
    STALE = "stale"
    """Answered by a release that was out of force."""
    UNAUTHORISED = "unauthorised"
    """Answered by somebody whom nobody trusted has let decide."""
    LOST = "lost_acknowledged"
    """A push, audit record or event that was acknowledged, and is not there."""
    DUPLICATED = "duplicated"
    """An event that was delivered twice, or a push that made two releases."""
    UNTOLD_GAP = "untold_gaps"
    """Events left out, and the subscriber was not told."""
    UNDUE = "undue"
    """An event, or a part of one, that its subscriber may not see."""
    REGRESSION = "epoch_regressions"
    """A PEP went back to an earlier release, or took an answer older than what it knew."""
    STAYED = "stayed"
    """A member stayed connected after its key was revoked."""
    BOUND = "bound"
    """It was said that a release comes into force later than is promised, or never."""


class Violation(msgspec.Struct, frozen=True):
    """One thing that must not happen, and did, and how often."""

    kind: Kind
    text: str
    count: int = 1

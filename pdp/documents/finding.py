"""Something found in policies that can be read, and where it stands."""

from __future__ import annotations

import enum

import msgspec


class Level(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    """Nothing is wrong; it is good to know."""


class Kind(enum.StrEnum):
    """What can be found."""

    SYNTAX = "syntax"
    UNKNOWN_ATTRIBUTE = "unknown-attribute"
    WRONG_TYPE = "wrong-type"
    UNREACHABLE = "unreachable"
    """It can never apply."""
    SHADOWED = "shadowed"
    """Wherever it applies, another overrides it."""
    REDUNDANT = "redundant"
    """Wherever it applies, another with the same effect does."""
    DUPLICATE = "duplicate"
    UNKNOWN_TERM = "unknown-term"
    """A rule asks for a fluent or function that there is not, or for one of other things."""
    INVALID_STEP = "invalid-step"
    UNKNOWN_TYPE = "unknown-type"
    MISFIT = "misfit"
    """A rule does not fit the type it is about."""
    ALLOWS_EVERYTHING = "allows-everything"
    """It allows every action on every object to every subject."""
    NO_POLICIES = "no-policies"
    """Nothing is there that could decide: everything would be denied."""
    ROLES_AS_TEXT = "roles-as-text"
    """It compares roles without their seniority and parameters."""
    NEGATIVE = "negative"
    """Of what is missing or of another type, its negative conditions mean the opposite of what they do in py-abac."""


WARNINGS = frozenset(
    {
        Kind.UNREACHABLE,
        Kind.SHADOWED,
        Kind.REDUNDANT,
        Kind.DUPLICATE,
        Kind.ALLOWS_EVERYTHING,
        Kind.ROLES_AS_TEXT,
    }
)


class Finding(msgspec.Struct, frozen=True):
    """Something found, and where: lines and columns count from one."""

    kind: Kind
    file: str
    line: int
    column: int
    text: str
    policy: str = ""

    @property
    def level(self) -> Level:
        if self.kind is Kind.NEGATIVE:
            return Level.NOTE
        return Level.WARNING if self.kind in WARNINGS else Level.ERROR

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.level}: {self.text}"

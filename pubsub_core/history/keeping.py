"""What is kept of a type, for how long, and by which attributes it can be searched."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from pubsub_core.event_type import AttributeType


class Search(enum.StrEnum):
    """How much the database may know of an attribute, to find events by it without opening them."""

    BLIND = "blind"
    """Which values are equal: serves `=` and `IN`."""
    CLEAR = "clear"
    """The values themselves: serves every comparison."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """One type's history. Attributes that are not listed stand sealed in the event, and nowhere else."""

    type: str
    """The type's UUID."""
    kinds: Mapping[str, AttributeType] = field(default_factory=dict)
    """All attributes by UUID."""
    searched: Mapping[str, Search] = field(default_factory=dict)
    """By the attribute's UUID."""
    seconds: float | None = None
    """How long events are kept; None: for ever."""
    name: str = ""
    """What people call the type."""

    def __post_init__(self) -> None:
        for attribute in self.searched:
            if self.kinds.get(attribute) in (None, AttributeType.BYTES, AttributeType.GEO):
                raise ValueError(f"events cannot be searched by `{attribute}`")

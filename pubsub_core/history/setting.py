"""What a broker is told about its history: where it is, by which key it is sealed, and what is kept of which type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pubsub_core.history.retention import Keeping, Search
from pubsub_core.types import Attribute, EventType


@dataclass(frozen=True, slots=True)
class KeepRule:
    """What is kept of the types whose names match: everything, for ever, unless it says otherwise."""

    type: str = "*"
    """A name, or a pattern such as `nhs.*`."""
    keep: bool = True
    seconds: float | None = None
    search: Mapping[str, Search] = field(default_factory=dict)
    """By the attribute's name."""


@dataclass(frozen=True, slots=True)
class HistorySetting:
    """Where events are kept."""

    url: str
    """SQLAlchemy's: `sqlite:///path`, or `postgresql+psycopg://host/name`."""
    secret: bytes = field(repr=False)
    """By which everything is sealed."""
    rules: tuple[KeepRule, ...] = ()
    """The first that matches a type counts; a type that none matches is kept for ever."""

    def keeping(self, definition: EventType, attributes: Mapping[str, Attribute]) -> Keeping | None:
        """What is kept of a type with these attributes, by UUID; None if nothing is. Raises ValueError."""
        found = (each for each in self.rules if fnmatchcase(definition.name, each.type))
        rule = next(found, KeepRule())
        if not rule.keep:
            return None
        ids = {each.name: each.id for each in attributes.values()}
        searched = {ids[name]: how for name, how in rule.search.items() if name in ids}
        kinds = {id_: each.type for id_, each in attributes.items()}
        return Keeping(definition.id, kinds, searched, rule.seconds, definition.name)

"""What a broker keeps of which type, where, for how long, and by which attributes it can be searched."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import blake2b

from msgspec import structs

from pubsub_core.events import Event
from pubsub_core.history.history_keys import HistoryKeys, Keys
from pubsub_core.types import Attribute, AttributeType, EventType

REPLACED = " (replaced)"
"""Suffix of a type's name for its events that rules have replaced."""


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

    @property
    def aside(self) -> Keeping:
        """The same for events that rules have replaced as they were published: kept, found by nobody, not replayed."""
        return replace(self, type=_aside(self.type), searched={}, name=f"{self.name}{REPLACED}")


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
    """By which everything is sealed; the newest, where another is to take over."""
    rules: tuple[KeepRule, ...] = ()
    """The first that matches a type counts; a type that none matches is kept for ever."""
    keys: Keys | None = field(default=None, repr=False)
    """Reads all keys, the newest last: `secret`, and those that are being replaced."""

    @property
    def vault(self) -> HistoryKeys:
        return HistoryKeys.of(self.keys() if self.keys is not None else (self.secret,), self.keys)

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


def aside(event: Event) -> Event:
    """An event that rules have replaced, as it is stored: beside its type rather than under it."""
    return structs.replace(event, type=_aside(event.type))


def _aside(type_: str) -> str:
    return blake2b(f"replaced {type_}".encode(), digest_size=16).hexdigest()

"""What rules are: who may receive events, what is held back from them, how they are altered, and what context is."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

from authz.predicate import TRUE, Predicate
from authz.rules.terms import Call, Moment

Place: TypeAlias = tuple[int, int]
"""Line and column."""
When: TypeAlias = "Moment | float"
"""A time to be reckoned, or one in Unix seconds."""


class Asking(enum.StrEnum):
    """What an authorisation is for."""

    SUBSCRIPTION = "subscription to"
    REPLAY = "replay of"


class Point(enum.StrEnum):
    """Where a transformation is done: as the event comes in, or as it goes out to a subscriber."""

    PUBLISH = "publish"
    NOTIFY = "notify"


class Scope(enum.StrEnum):
    """Who hears what begins and ends a fluent: one broker, or all."""

    LOCAL = "local"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Rate:
    """A maximum number of events in a number of seconds."""

    count: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Allow:
    """Who may subscribe to events of a type, or have past ones replayed. Without such a rule nobody may."""

    type: str
    asking: Asking
    where: Predicate = TRUE
    rate: Rate | None = None
    """How fast past events may come; None if as fast as they can."""


@dataclass(frozen=True, slots=True)
class AllowDuring:
    """Who may choose past events by whether a fluent held when they were published. Without such a rule nobody may."""

    fluent: str
    where: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class Restrict:
    """Of the events of a type, those whom `where` describes receive only what passes the filter, and are not told."""

    type: str
    filter: Predicate
    where: Predicate = TRUE
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transform:
    """An event of one type becomes one of another, by these steps in turn."""

    type: str
    to: str
    point: Point
    steps: tuple[Call, ...]
    where: Predicate = TRUE
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class During:
    """Only what happened while a fluent held; with `inverted`, while it did not."""

    fluent: Call
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class AutoReplay:
    """When an event of type `trigger` comes, past events go to those whose subscriptions fit `where`."""

    type: str
    trigger: str
    start: When | None = None
    end: When | None = None
    during: During | None = None
    where: Predicate = TRUE
    filter: Predicate = TRUE
    trigger_where: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class Trigger:
    """Events of a type, and which of their attributes say of what the fluent begins or ends to hold."""

    type: str
    arguments: tuple[str, ...]
    where: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class FluentRule:
    """A state of affairs, by the events that begin and end it."""

    name: str
    parameters: tuple[str, ...]
    initiated: tuple[Trigger, ...]
    terminated: tuple[Trigger, ...]
    scope: Scope = Scope.LOCAL


Body: TypeAlias = Allow | AllowDuring | Restrict | Transform | AutoReplay | FluentRule


@dataclass(frozen=True, slots=True)
class Rule:
    """One statement. Where it stands in its file is no part of what it says."""

    body: Body
    label: str = ""
    place: Place = field(default=(0, 0), compare=False)

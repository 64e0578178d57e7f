"""What brokers say to each other about the past: a page of events, or of a fluent, is asked for, and comes back.

Each page is asked for by itself, and says where the next begins. So whoever answers keeps nothing in mind, an answer
that was lost is asked for again, and nobody is sent more than it has room for. Both ways the message is sealed by what
only the two brokers know; of a type that travels sealed, the events are sealed by its own keys besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from authz.predicate import Predicate
from bus.wire import Unpack
from pubsub_core.history.position import Position, Span
from pubsub_core.keys import SealedFilter


class PageWanted(msgspec.Struct, frozen=True, tag_field="past", tag="wanted"):
    """Ask a broker for events of one type that were published there."""

    id: bytes
    """By which the answer is known."""
    type: str
    filter: Predicate | None = None
    sealed: tuple[SealedFilter, ...] = ()
    """The filter, if the type's events are sealed."""
    start: float | None = None
    end: float | None = None
    during: str = ""
    not_during: str = ""
    after: Position | None = None
    beyond: int = 0
    """Only rows after this one."""
    mark: int | None = None
    """Only rows up to this one."""


class PageFound(msgspec.Struct, frozen=True, tag_field="past", tag="found"):
    """Some events, in order of time."""

    id: bytes
    events: list[msgspec.Raw] = []
    columns: bytes = b""
    """The same sealed, for whoever may not read all of them, as if they were published at one time."""
    times: list[float] = []
    """When they were."""
    after: Position | None = None
    """Where the next page begins; none after the last."""
    mark: int = 0
    """The newest row, when the first page was asked for."""
    keeps: bool = True
    """Whether there is a history at all."""
    damaged: int = 0
    """How many events there were that do not open."""
    problem: str = ""
    """Why nothing more can be had."""
    later: bool = False
    """Whether to ask again."""


class MarksWanted(msgspec.Struct, frozen=True, tag_field="past", tag="marks wanted"):
    """Ask a broker when a shared fluent began and ended to hold."""

    id: bytes
    type: str
    """One of the types whose events begin or end it."""
    fluent: str
    definition: bytes
    """What tells it from another fluent of that name."""
    since: float = float("-inf")
    beyond: bytes = b""
    """Of the moment `since`, only what comes after this, in the order of pages."""


class MarksFound(msgspec.Struct, frozen=True, tag_field="past", tag="marks found"):
    """Some of it, in order of time."""

    id: bytes
    marks: list[tuple[tuple[str | int | float | bool, ...], float, bool]] = []
    """Of what, when, and whether it began."""
    after: float | None = None
    """From when on there is more; None if that was all."""
    problem: str = ""
    later: bool = False
    """Whether to ask again."""
    beyond: bytes = b""
    """The last of that moment that is among them, if any is."""


class Past(msgspec.Struct, frozen=True):
    """The box around it."""

    content: PageWanted | PageFound | MarksWanted | MarksFound


class PastBox(msgspec.Struct, frozen=True):
    """The same, sealed, with its sender."""

    sender: str
    box: bytes


unpack_past = Unpack(Past)
unpack_past_box = Unpack(PastBox)


class Keeper(Protocol):
    """Answers from a history: what the rest of a broker needs of it. There may be none, for want of its packages."""

    async def page(
        self,
        wanted: PageWanted,
        filter: Predicate,  # noqa: A002 - the domain's own word
        spans: Sequence[Span],
        near: bool,
    ) -> PageFound:
        """The page that is asked for, by this filter and of these times. Raises HistoryUnavailable.

        One that stays `near`, with the broker itself, may be larger, and hold what the filter does not let through.
        """
        ...

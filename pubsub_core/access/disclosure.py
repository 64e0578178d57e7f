"""Disclosure records: for everything sent under rules, to whom, which attributes of which events, by which rules.

What goes into one message is told together. Telling never waits; whoever is told keeps it, or counts what it cannot.
Where a policy demands it, `kept` says when what was told is kept, and nothing is sent before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from bus.audit import Disclosure
from pubsub_core.events import Event
from pubsub_core.types import Catalogue

Kept: TypeAlias = Callable[[Callable[[bool], None]], None]
"""Calls back when all disclosures are stored; with false if one is not."""
_Named: TypeAlias = tuple[bytes, int, float]
"""An event's publisher, number and time."""


class _Kind(NamedTuple):
    """What disclosures have in common that are told together."""

    subject: str
    type: str
    """The UUID of the type that events were published as."""
    version: str
    """The version that they were sent as."""
    attributes: tuple[str, ...]
    """By UUID."""
    rules: tuple[str, ...]
    replayed: bool


class Disclosures:
    """Gathers disclosures until they are recorded."""

    def __init__(self, catalogue: Catalogue, tell: Callable[[Disclosure], None], kept: Kept) -> None:
        self._catalogue = catalogue
        self._tell = tell
        self._kept = kept
        self._waiting: dict[tuple[object, ...], list[_Named]] = {}
        """By kind, of which the fields alone are looked up."""

    def note(
        self, subject: str, event: Event, shown: Event, rules: tuple[str, ...], replayed: bool = False
    ) -> None:
        """An event is being sent to somebody, as something perhaps else, under these rules."""
        alike = self._alike(subject, event, shown, rules, replayed)
        alike.append((event.publisher, event.sequence, event.time))

    def note_all(
        self,
        subject: str,
        events: Sequence[Event],
        shown: Sequence[Event | None],
        rules: tuple[str, ...],
        replayed: bool,
    ) -> None:
        """The same for events of one version, in place of each of which one of another is sent, or None."""
        last, alike = None, list[_Named]()
        for event, each in zip(events, shown, strict=True):
            if each is None:
                continue
            values = each.attributes
            seen, partial = [*values], None in values.values()
            if seen != last or partial:
                alike = self._alike(subject, event, each, rules, replayed)
                last = None if partial else seen
            alike.append((event.publisher, event.sequence, event.time))

    def _alike(
        self, subject: str, event: Event, shown: Event, rules: tuple[str, ...], replayed: bool
    ) -> list[_Named]:
        """Those that are told together with this one."""
        values = shown.attributes
        seen = tuple(values)
        if None in values.values():
            seen = tuple(id_ for id_ in seen if values[id_] is not None)
        kind = subject, event.type, shown.version, seen, rules, replayed
        alike = self._waiting.get(kind)
        if alike is None:
            alike = self._waiting[kind] = []
        return alike

    def keep(self, done: Callable[[bool], None]) -> None:
        """Hand on what was gathered, and say when it is kept; false if it is not."""
        self.tell()
        self._kept(done)

    def tell(self) -> None:
        """Hand on what was gathered."""
        waiting, self._waiting = self._waiting, {}
        for fields, events in waiting.items():
            kind = _Kind(*fields)  # type: ignore[arg-type]
            attributes = self._catalogue.attributes(kind.version)
            disclosure = Disclosure(
                kind.subject,
                self._catalogue.newest(kind.type).name,
                self._catalogue.version(kind.version).name,
                tuple(attributes[id_].name for id_ in kind.attributes if id_ in attributes),
                kind.rules,
                tuple(events),
                kind.replayed,
            )
            self._tell(disclosure)

"""What a broker tells another of a shared fluent, if the other follows the same one and may know of it."""

from __future__ import annotations

from pubsub_core.broker import Broker
from pubsub_core.carriage import Peer
from pubsub_core.history import MarksFound, MarksWanted
from pubsub_core.rules import Arguments, Fluents

PAGE = 1024
MOST_BYTES = 256 * 1024
"""Maximum bytes of a page: twice as many would not fit a message."""
MARK_BYTES = 16
"""Maximum bytes of a mark, besides the names in it."""


def tell_marks(broker: Broker, peer: Peer, wanted: MarksWanted) -> MarksFound:
    """A page of when a fluent began and ended, as it is known here."""
    vault = broker.setting.vault
    shared = broker.observer.common.get(wanted.fluent)
    if not broker.observer.told:
        return MarksFound(wanted.id, later=True)
    if shared is None or shared.definition != wanted.definition:
        return MarksFound(wanted.id, problem="follows no such fluent")
    if not shared.types <= peer.carries:
        return MarksFound(wanted.id, problem="does not trust us with the events behind it")
    if any(each in vault.sealed and not vault.equal(each, peer.groups) for each in shared.types):
        return MarksFound(wanted.id, problem="tells only those who have the same keys")
    return _page(wanted, broker.setting.rules.context.fluents)


def _page(wanted: MarksWanted, fluents: Fluents) -> MarksFound:
    """The next that are wanted, as many as go into a page.

    A page ends at a place in the order rather than after a number: what comes in between shifts nothing.
    """
    marks: list[tuple[Arguments, float, bool]] = []
    size, last = 0, (wanted.since, wanted.beyond)
    for at, name, arguments, begins in fluents.moments(wanted.fluent, wanted.since):
        if wanted.beyond and (at, name) <= (wanted.since, wanted.beyond):
            continue
        size += len(name) + MARK_BYTES
        if marks and (len(marks) == PAGE or size > MOST_BYTES):
            return MarksFound(wanted.id, marks, last[0], beyond=last[1])
        marks.append((arguments, at, begins))
        last = at, name
    return MarksFound(wanted.id, marks)

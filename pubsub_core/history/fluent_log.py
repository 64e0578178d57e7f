"""The marks that events leave in a history besides themselves, so that a restart forgets none of it.

These are when fluents began and ended, and which past events rules have yet to send to whom. Invariant: what is
forgotten concerns only times from which no event is kept any more, and what nobody is owed; a fluent that still holds
is known however long ago it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from pubsub_core.history.pending_replays import Debt, Receipt
from pubsub_core.history.retention import Keeping
from pubsub_core.rules import KEPT_SECONDS, Mark

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Mark | Debt | Receipt).decode

Row: TypeAlias = tuple[int, bytes]
"""A mark as it was stored, and where."""


class FluentLog:
    """Hands marks on to be stored, and has those that were."""

    def __init__(
        self,
        stored: Sequence[Row],
        store: Callable[[bytes], None],
        kept: Callable[[], Iterable[Keeping]] = tuple,
    ) -> None:
        """`kept` says what is kept of events."""
        self._stored = stored
        self._store = store
        self._kept = kept

    def append(self, mark: Mark) -> None:
        self._store(_encode(mark))

    def note(self, word: Debt | Receipt) -> None:
        self._store(_encode(word))

    def marks(self) -> Iterator[Mark]:
        return (each for each in self._words() if isinstance(each, Mark))

    def debts(self) -> Iterator[tuple[Debt, bool]]:
        """What rules had to send, and whether they still have."""
        received = {each.ticket for each in self._words() if isinstance(each, Receipt)}
        return ((each, each.ticket not in received) for each in self._words() if isinstance(each, Debt))

    def _words(self) -> Iterator[Mark | Debt | Receipt]:
        return (_decode(each) for _, each in self._stored)

    def since(self, now: float) -> float:
        """From when on it must be known when fluents held."""
        return needed_since(self._kept(), now)


def needed_since(kept: Iterable[Keeping], now: float) -> float:
    """As far back as the oldest event that is kept, and no less than without a history."""
    lengths = [each.seconds for each in kept]
    if None in lengths:
        return float("-inf")
    return now - max(KEPT_SECONDS, *(each for each in lengths if each is not None), 0.0)


def superfluous(stored: Iterable[Row], before: float) -> list[int]:
    """What no question about `before` or later needs, what says again what another does, and what nobody is owed."""
    words = [(row, _decode(body)) for row, body in stored]
    marks = ((row, each) for row, each in words if isinstance(each, Mark))
    return [*_paid(words), *_unneeded(marks, before)]


def _paid(words: Iterable[tuple[int, Mark | Debt | Receipt]]) -> Iterator[int]:
    owed: dict[bytes, int] = {}
    for row, word in words:
        if isinstance(word, Debt):
            owed[word.ticket] = row
        elif isinstance(word, Receipt):
            yield row
            if word.ticket in owed:
                yield owed[word.ticket]


def _unneeded(marks: Iterable[tuple[int, Mark]], before: float) -> list[int]:
    latest: dict[object, tuple[int, Mark]] = {}
    said, gone = set[Mark](), list[int]()
    for row, mark in marks:
        if mark in said:
            gone.append(row)
            continue
        said.add(mark)
        if mark.at >= before:
            continue
        known = latest.get(mark[:2])
        if known is None or _follows(mark, known[1]):
            latest[mark[:2]] = row, mark
            gone += [known[0]] if known is not None else []
        else:
            gone.append(row)
    return gone + [row for row, mark in latest.values() if not mark.begins]


def _follows(mark: Mark, other: Mark) -> bool:
    """Whether it counts after the other: the later, and of two at one moment the end."""
    return (mark.at, not mark.begins) > (other.at, not other.begins)

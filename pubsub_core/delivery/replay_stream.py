"""Past events on their way to a client: from several brokers, put in order of time, as far as the client has room.

Invariant: of the events that the sources have, those with earlier times come first, and nothing is handed on while a
source that may have an earlier one has not answered. So whoever knows the time of the last event it got can go on from
there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import groupby

from authz.predicate import TRUE, Predicate, conjunction
from authz.rules import Rate
from pubsub_core.access import Enforcement
from pubsub_core.delivery.subscription_table import Subscription
from pubsub_core.events import Encoded, Event, select
from pubsub_core.history import Position
from pubsub_core.messages import Tense

MOST_WAITING = 10_000
"""Maximum live events queued behind a replay; further ones are read from the history."""
WINDOW = 2048
"""Maximum replayed events in flight per subscription."""
FEW = 512
"""Events left of a page when the next page is requested from another broker."""


def _type(each: Encoded) -> str:
    return each[0].type


@dataclass(frozen=True, slots=True)
class Query:
    """Which past events are wanted, besides their type and the filter."""

    start: float | None = None
    end: float | None = None
    during: str = ""
    not_during: str = ""

    @property
    def context(self) -> dict[str, object]:
        """What policies can see of it."""
        return {
            name: value for name, value in zip(_NAMES, self._values, strict=True) if value not in (None, "")
        }

    @property
    def _values(self) -> tuple[object, ...]:
        return self.start, self.end, self.during, self.not_during


_NAMES = ("from", "to", "during", "not_during")


@dataclass(slots=True, eq=False)
class Source:
    """What one broker has of one type, as far as it has come."""

    broker: str
    type: str
    near: bool = False
    """Whether it is this broker: then reading and sending take turns, since they only get in each other's way."""
    after: Position | None = None
    mark: int | None = None
    """The newest row when it was first asked: later ones are not of the past."""
    beyond: int = 0
    """Rows up to this one are known already."""
    keeps: bool = True
    """Whether it has a history, as far as is known."""
    ended: bool = False
    asking: bool = False
    page: deque[Encoded] = field(default_factory=deque)
    coming: Iterator[Sequence[Encoded]] = field(default_factory=lambda: iter(()))
    """The rest of the page: read as it is needed, so that what is worked on stays in the processor's cache."""

    def turn(self, most: int) -> None:
        """Read on until `most` events are at hand, or all there are."""
        while len(self.page) < most and (some := next(self.coming, None)) is not None:
            self.page.extend(some)


class Waiting:
    """Present events that wait for past ones."""

    def __init__(self) -> None:
        self.items: list[object] = []
        self.overflowed = False

    def put(self, item: object) -> None:
        if len(self.items) < MOST_WAITING and not self.overflowed:
            self.items.append(item)
        else:
            self.overflowed = True
            self.items.clear()


@dataclass(slots=True, eq=False)
class Playback(Subscription):
    """A request for past events, and what of it is granted now."""

    query: Query = Query()
    asked: Mapping[str, Predicate] = field(default_factory=dict)
    """The client's filter, by type."""
    joined: Subscription | None = None
    """The subscription whose past this is, if it is that of one."""
    narrow: Predicate = TRUE
    """What a rule asks of the events besides."""
    test: Callable[[Event, float], bool] | None = None
    """The rest of it."""
    ticket: bytes = b""
    """By which it is known to its client, if a rule has it sent."""
    owed: bool = False
    """Whether it is in place of present events that were not sent: what no broker has kept is then missing."""
    refused: str = ""
    """Why it may go no further, if so."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _pushed: dict[str, Predicate] = field(default_factory=dict)
    """What can be asked of events of each type before restrictions are applied."""
    _timer: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        Subscription.__post_init__(self)
        self.tense = self.tense or Tense.PAST

    @property
    def key(self) -> object:
        """By which it is known in its session; a subscription may have several that no client asked for."""
        return self if self.tense is Tense.AGAIN else self.number

    @property
    def meets_present(self) -> bool:
        """Whether present events are to follow without a gap."""
        return self.joined is not None

    @property
    def rates(self) -> dict[str, Rate]:
        """How fast it may go, by the names of the rules that say so."""
        rules = (each for enforcement in self.granted.values() for each in enforcement.restriction.every_rule)
        slow = (each.slowest for each in rules)
        return {each.id: each.rate for each in slow if each is not None and each.rate is not None}

    def go_on(self) -> None:
        """Something has changed that may let it go on."""
        if self._timer is not None:
            self._timer.cancel()
        self.news.set()

    def go_on_after(self, seconds: float) -> None:
        """It can go on in `seconds`, if nothing else happens: what was said of that before is void."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.go_on)

    def permit(self, granted: Mapping[str, tuple[Enforcement, Predicate]], answered: bool) -> None:
        """What of it is granted from now on; nothing, for good, if that is the answer."""
        self.granted = {type_: enforcement for type_, (enforcement, _) in granted.items()}
        self.asked = {type_: conjunction(asked, self.narrow) for type_, (_, asked) in granted.items()}
        self._pushed = {
            type_: conjunction(asked, self.granted[type_].restriction.pushed)
            for type_, asked in self.asked.items()
        }
        if answered and not granted:
            self.refused = self.refused or "it is no longer permitted"
        self.news.set()

    def wanted(self, events: Iterable[Encoded], now: float) -> list[Encoded]:
        """Those that were asked for, of whose type events may be had at all, and that are not held back for all."""
        found, test = list[Encoded](), self.test
        for type_, some in groupby(events, _type):
            if type_ in self._pushed:
                found += select(self._pushed[type_], some)
        return found if test is None else [each for each in found if test(each[0], now)]


class Merge:
    """Pages from several sources as one sequence in order of time."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = list(sources)

    @property
    def ended(self) -> bool:
        for each in self.sources:
            each.turn(1)
        return all(each.ended and not each.page for each in self.sources)

    def hungry(self) -> Iterator[Source]:
        """The sources that should be asked for more."""
        for each in self.sources:
            each.turn(FEW)
            few = not each.page if each.near else len(each.page) < FEW
            if few and not each.ended and not each.asking:
                yield each

    def take(self, most: int) -> list[Encoded]:
        """The next events, as far as it is certain that none comes before them."""
        for each in self.sources:
            each.turn(most)
        if any(not each.page and not each.ended for each in self.sources):
            return []
        if len(self.sources) == 1:
            page = self.sources[0].page
            if len(page) > most:
                return [page.popleft() for _ in range(most)]
            taken = list(page)
            page.clear()
            return taken
        heads = [(each.page[0][0].time, number) for number, each in enumerate(self.sources) if each.page]
        heapify(heads)
        taken = []
        while heads and len(taken) < most:
            _, number = heappop(heads)
            source = self.sources[number]
            taken.append(source.page.popleft())
            if source.page:
                heappush(heads, (source.page[0][0].time, number))
            elif not source.ended:
                break
        return taken

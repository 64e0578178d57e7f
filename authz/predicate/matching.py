"""Which of many filters let an event through, looking only at those that could.

Predicate-indexed matching, after the access predicates of Fabret et al. (Filtering algorithms for very fast
publish/subscribe systems, SIGMOD 2001). Each filter is filed under guards: comparisons of which at least one holds
whenever the filter does. An event is looked up in each table of guards, and only what is found there is tried.
Invariant: a filter is found by every event that it lets through, so the answer is that of trying them all.

Bounded intervals are filed by size, in cells twice as wide at each level: an interval lies in at most two cells of
its level, and an event is in one cell of each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import frexp, inf, isfinite
from typing import Generic, TypeVar

from authz.predicate import EVENT, And, Equal, In, Or, Order, Path, Predicate, Prefix, compile_predicate
from authz.predicate.values import NUMBERS, dig, key

T = TypeVar("T", bound=Hashable)
K = TypeVar("K", bound=Hashable)
Values = Mapping[str, object]
FEW = 6
"""Up to this many filters, trying each is faster than looking them up."""


@dataclass(frozen=True, slots=True)
class Value:
    """The attribute is this constant."""

    path: Path
    key: object
    cost = 0


@dataclass(frozen=True, slots=True)
class Start:
    """The attribute is a string that starts so."""

    path: Path
    text: str
    cost = 1


@dataclass(frozen=True, slots=True)
class Between:
    """The attribute is a number from `low` to `high`; one of them may be endless."""

    path: Path
    low: float
    high: float

    @property
    def cost(self) -> int:
        return 1 if isfinite(self.low) and isfinite(self.high) else 2


Guard = Value | Start | Between


def guards(predicate: Predicate) -> list[Guard] | None:
    """Guards of which at least one holds whenever the predicate does; None if there is no saying."""
    match predicate:
        case Equal(path, value, fold):
            return None if fold else [Value(path, key(value))]
        case In(path, values):
            return [Value(path, each) for each in dict.fromkeys(map(key, values))]
        case Prefix(path, text, fold):
            return None if fold else [Start(path, text)]
        case Order(path, op, value):
            return _bound(path, op, value)
        case Or(terms):
            each = [guards(term) for term in terms]
            return None if None in each else list(dict.fromkeys(g for some in each for g in some or ()))
        case And(terms):
            return _best([*_intervals(terms), *map(guards, terms)])
    return None


def _bound(path: Path, op: str, value: float | str) -> list[Guard] | None:
    if isinstance(value, str):
        return None
    return [Between(path, -inf, value) if op in ("<", "<=") else Between(path, value, inf)]


def _intervals(terms: tuple[Predicate, ...]) -> Iterator[list[Guard]]:
    """The bounds on one number, taken together."""
    bounds: dict[Path, tuple[float, float]] = {}
    for term in terms:
        found = guards(term) if isinstance(term, Order) else None
        for each in found or ():
            if isinstance(each, Between):
                low, high = bounds.get(each.path, (-inf, inf))
                bounds[each.path] = max(low, each.low), min(high, each.high)
    for path, (low, high) in bounds.items():
        yield [Between(path, low, high)] if low <= high else []


def _best(choices: list[list[Guard] | None]) -> list[Guard] | None:
    known = [each for each in choices if each is not None]
    return min(
        known, key=lambda each: (max((guard.cost for guard in each), default=0), len(each)), default=None
    )


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    """A filter, and those who have it."""

    predicate: Predicate
    guards: list[Guard] | None
    settled: bool
    """Whether being found is enough."""
    holds: Callable[[Values], bool] | None = None
    """Compiled when it is first tried: of many filters, few ever are."""
    items: dict[T, None] = field(default_factory=dict)

    def compile(self) -> Callable[[Values], bool]:
        self.holds = compile_predicate(self.predicate, EVENT)
        return self.holds


class Matcher(Generic[T]):
    """Items by their filters: `add`, `remove`, and `match` those whose filter lets an event through."""

    def __init__(self) -> None:
        self._entries: dict[Predicate, _Entry[T]] = {}
        self._filters: dict[T, Predicate] = {}
        self._rest: dict[_Entry[T], None] = {}
        self._values: dict[Path, dict[object, dict[_Entry[T], None]]] = {}
        self._starts: dict[Path, dict[int, dict[str, dict[_Entry[T], None]]]] = {}
        self._numbers: dict[Path, _Numbers[T]] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def add(self, item: T, predicate: Predicate) -> None:
        """File an item under its filter, in place of the one it had."""
        self.remove(item)
        entry = self._entries.get(predicate)
        if entry is None:
            entry = self._entries[predicate] = self._entry(predicate)
            self._file(entry)
        entry.items[item] = None
        self._filters[item] = predicate

    def remove(self, item: T) -> None:
        predicate = self._filters.pop(item, None)
        if predicate is None:
            return
        entry = self._entries[predicate]
        del entry.items[item]
        if not entry.items:
            del self._entries[predicate]
            self._unfile(entry)

    def filters(self) -> list[Predicate]:
        """Each filter that somebody has, once."""
        return list(self._entries)

    def match(self, values: Values) -> list[T]:
        """The items whose filters let these values through, each once."""
        found: list[T] = []
        entries = self._entries
        if len(entries) <= FEW:
            for entry in entries.values():
                if (entry.holds or entry.compile())(values):
                    found += entry.items
            return found
        tried: set[_Entry[T]] = set()
        for entry in self._candidates(values):
            if entry.guards is not None and len(entry.guards) > 1:  # more than one of them may have found it
                if entry in tried:
                    continue
                tried.add(entry)
            if entry.settled or (entry.holds or entry.compile())(values):
                found.extend(entry.items)
        return found

    def match_each(self, many: Sequence[Values]) -> list[list[T]]:
        """What `match` finds for each of many. Lists may be the same one: they are to be read only."""
        if len(self._entries) != 1:
            return list(map(self.match, many))
        (entry,) = self._entries.values()
        holds, found, nothing = entry.holds or entry.compile(), list(entry.items), list[T]()
        return [found if holds(values) else nothing for values in many]

    def _candidates(self, values: Values) -> list[_Entry[T]]:
        found = list(self._rest)
        for path, table in self._values.items():
            value = _read(values, path)
            if value is not None and (hits := table.get(key(value))):
                found += hits
        for path, lengths in self._starts.items():
            value = _read(values, path)
            if isinstance(value, str):
                for length, texts in lengths.items():
                    found += texts.get(value[:length], ())
        for path, numbers in self._numbers.items():
            value = _read(values, path)
            if isinstance(value, NUMBERS) and value.__class__ is not bool:
                numbers.collect(value, found)
        return found

    def _entry(self, predicate: Predicate) -> _Entry[T]:
        found = guards(predicate)
        return _Entry(predicate, found, found is not None and isinstance(predicate, Equal | In | Prefix))

    def _file(self, entry: _Entry[T]) -> None:
        if entry.guards is None:
            self._rest[entry] = None
        for guard in entry.guards or ():
            match guard:
                case Value(path, value):
                    self._values.setdefault(path, {}).setdefault(value, {})[entry] = None
                case Start(path, text):
                    lengths = self._starts.setdefault(path, {})
                    lengths.setdefault(len(text), {}).setdefault(text, {})[entry] = None
                case Between(path, low, high):
                    self._numbers.setdefault(path, _Numbers()).add(low, high, entry)

    def _unfile(self, entry: _Entry[T]) -> None:
        self._rest.pop(entry, None)
        for guard in entry.guards or ():
            match guard:
                case Value(path, value):
                    _discard(self._values[path], value, entry)
                case Start(path, text):
                    _discard(self._starts[path][len(text)], text, entry)
                case Between(path, low, high):
                    self._numbers[path].remove(low, high, entry)


class _Numbers(Generic[T]):
    """Entries by intervals of one number."""

    def __init__(self) -> None:
        self._levels: dict[float, dict[float, dict[_Entry[T], None]]] = {}
        self._from: list[tuple[float, int, _Entry[T]]] = []
        self._until: list[tuple[float, int, _Entry[T]]] = []

    def add(self, low: float, high: float, entry: _Entry[T]) -> None:
        if not isfinite(high):
            insort(self._from, (low, id(entry), entry))
        elif not isfinite(low):
            insort(self._until, (high, id(entry), entry))
        else:
            for width, cell in _cells(low, high):
                self._levels.setdefault(width, {}).setdefault(cell, {})[entry] = None

    def remove(self, low: float, high: float, entry: _Entry[T]) -> None:
        if not isfinite(high):
            self._from.remove((low, id(entry), entry))
        elif not isfinite(low):
            self._until.remove((high, id(entry), entry))
        else:
            for width, cell in _cells(low, high):
                _discard(self._levels[width], cell, entry)
                if not self._levels[width]:
                    del self._levels[width]

    def collect(self, value: float, found: list[_Entry[T]]) -> None:
        """Add the entries whose interval holds the value, and perhaps some that end just before it."""
        if self._from:
            found += [entry for _, _, entry in self._from[: bisect_right(self._from, value, key=_first)]]
        if self._until:
            found += [entry for _, _, entry in self._until[bisect_left(self._until, value, key=_first) :]]
        for width, cells in self._levels.items():
            found += cells.get(value // width, ())


def _first(filed: tuple[float, int, object]) -> float:
    return filed[0]


def _cells(low: float, high: float) -> Iterator[tuple[float, float]]:
    """The cells that the interval reaches into, at the level where a cell is at least as wide as it is."""
    length = high - low
    width = inf if length >= 2.0**1023 else 2.0 ** frexp(length)[1]
    first, last = low // width, high // width
    yield width, first
    if last != first:
        yield width, last


def _read(values: Values, path: Path) -> object:
    keys = path.keys
    return values.get(keys[0]) if len(keys) == 1 else dig(values, keys)  # type: ignore[arg-type]


def _discard(table: dict[K, dict[_Entry[T], None]], found: K, entry: _Entry[T]) -> None:
    table[found].pop(entry, None)
    if not table[found]:
        del table[found]

"""Who may, what may be, and by which action: every known entity for which a request would be allowed.

What is allowed meets the condition of at least one policy that allows. So the conditions are put into an index, each
without what it demands of the entity sought; those that hold of the rest of the request say, by their guards, which
entities can come into question. These are decided one by one, in the order of their ids. Invariant: what is found is
what asking for each known entity would find.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import typing
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, takewhile

from authz import AuthFabricError, Entity, Request
from authz.predicate import Hidden, Predicate, widen
from authz.predicate.values import LISTS, dig, key
from bus.wire import SearchPage, SearchQuery
from pdp.bundle import Entities
from pdp.engine import Dimension, Index, guards
from pdp.replica.service import Decider

Wanted: typing.TypeAlias = typing.Literal["subject", "object", "action"]
ROOTS = frozenset(typing.get_args(Wanted))

SLICE = 256
"""How many requests are decided at once."""
MOST_DECISIONS = 20_000
"""How many decisions one page may cost: then it ends even if it is not full, and its cursor leads on."""
MOST_FOUND = 500


class InvalidSearch(AuthFabricError):
    """A search that cannot be meant: `problem` says what would be right."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def validate(query: SearchQuery) -> None:
    """Raise InvalidSearch, or InvalidRequest, for what cannot be searched."""
    given = {name for name in ROOTS if getattr(query, name) is not None}
    if given != ROOTS - {query.wanted}:
        others = " and ".join(sorted(ROOTS - {query.wanted}))
        raise InvalidSearch(f"to search for {query.wanted}s, give {others}, and no {query.wanted}")
    if not 1 <= query.limit <= MOST_FOUND:
        raise InvalidSearch(f"the limit must be between 1 and {MOST_FOUND}, not {query.limit}")
    question(query, Entity("any"), Entities()).validate()
    _read_cursor(query.cursor)


def question(query: SearchQuery, sought: Entity, known: Entities) -> Request:
    """What is asked about one of the entities sought; of the others, what is known is added to what is said."""
    return Request(
        sought if query.subject is None else _known(query.subject, known.subjects),
        sought if query.object is None else _known(query.object, known.objects),
        sought if query.action is None else _known(query.action, known.actions),
        query.context,
    )


class Searcher:
    """Searches the known entities under one set of policies."""

    def __init__(
        self,
        decider: Decider,
        conditions: Callable[[], Iterable[Predicate]],
        entities: Entities,
        hidden: Hidden,
    ) -> None:
        """`conditions` are such that whatever is allowed meets one of them; attributes that are `hidden` are
        looked up only when a request is decided."""
        self._decider = decider
        self._conditions = conditions
        self._entities = entities
        self._hidden = hidden
        self._sides: dict[Wanted, _Side] = {}

    async def search(self, query: SearchQuery) -> SearchPage:
        """One page of what is found. Raises InvalidSearch or InvalidRequest."""
        validate(query)
        if query.wanted not in self._sides:
            self._sides[query.wanted] = await asyncio.to_thread(self._prepare, query.wanted)
        side = self._sides[query.wanted]
        asked = question(query, Entity("any"), self._entities)
        candidates = await asyncio.to_thread(side.candidates, asked, _read_cursor(query.cursor), query.under)
        found: list[str] = []
        decided, epoch = 0, 0
        for start in range(0, len(candidates), SLICE):
            several = candidates[start : start + SLICE]
            requests = [question(query, side.population.entities[each], self._entities) for each in several]
            decisions = await self._decider.decide_many(requests)
            for name, decision in zip(several, decisions, strict=True):
                epoch = decision.epoch
                decided += 1
                if decision.allowed:
                    found.append(name)
                if len(found) == query.limit or decided == MOST_DECISIONS:
                    more = name != candidates[-1]
                    return SearchPage(tuple(found), _cursor(name) if more else "", epoch)
        return SearchPage(tuple(found), "", epoch)

    def _prepare(self, wanted: Wanted) -> _Side:
        populations = {
            "subject": self._entities.subjects,
            "object": self._entities.objects,
            "action": self._entities.actions,
        }
        return _Side(wanted, self._conditions(), populations[wanted], self._hidden)


class _Side:
    """What is needed to search for one of subject, object and action."""

    def __init__(
        self, wanted: Wanted, conditions: Iterable[Predicate], entities: Mapping[str, Entity], hidden: Hidden
    ) -> None:
        self.population = _Population(entities)
        self._index = Index(
            (widen(each, lambda path: path.root == wanted or hidden(path)), _places(each, wanted, hidden))
            for each in conditions
        )

    def candidates(self, asked: Request, after: str, under: str) -> Sequence[str]:
        """The ids that may be found and begin as said, in order, after one."""
        places: list[_Places] = []
        try:
            self._index.search(asked, places.append)
        except Exception:  # one condition cannot be evaluated: then any entity may come into question
            return self.population.under(under, after)
        if not all(places):
            return self.population.under(under, after)
        found = {name for each in places for name in self.population.smallest(each)}
        return sorted(name for name in found if name > after and name.startswith(under))


_Places: typing.TypeAlias = tuple[tuple[Dimension, frozenset[object]], ...]
"""Dimensions of the entity sought, with keys of which it needs one in each; none if it may be any."""


def _places(condition: Predicate, wanted: Wanted, hidden: Hidden) -> _Places:
    return tuple(
        (dimension, keys)
        for dimension, keys in guards(condition).items()
        if dimension.path.root == wanted and not hidden(dimension.path) and _is_filed(dimension)
    )


def _is_filed(dimension: Dimension) -> bool:
    """Whether entities can be looked up there: by the start of their id, but not of an attribute."""
    return dimension.kind != "under" or not dimension.path.keys


class _Population:
    """Entities of one kind, found by id, by the start of their id, and by attributes."""

    def __init__(self, entities: Mapping[str, Entity]) -> None:
        self.entities = entities
        self._tables: dict[Dimension, dict[object, list[str]]] = {}

    @cached_property
    def ids(self) -> list[str]:
        return sorted(self.entities)

    def under(self, beginning: str, after: str = "") -> Sequence[str]:
        """All ids that begin so, in order, after one."""
        start = max(bisect_left(self.ids, beginning), bisect_right(self.ids, after) if after else 0)
        return list(takewhile(lambda name: name.startswith(beginning), islice(self.ids, start, None)))

    def smallest(self, places: _Places) -> Sequence[str]:
        """All that have one of the keys, in the dimension where they are fewest."""
        found = [
            [name for each in keys for name in self._have(dimension, each)] for dimension, keys in places
        ]
        return min(found, key=len)

    def _have(self, dimension: Dimension, wanted: object) -> Sequence[str]:
        if dimension.kind == "under":
            return self.under(str(wanted))
        if dimension not in self._tables:
            self._tables[dimension] = self._table(dimension)
        return self._tables[dimension].get(wanted, ())

    def _table(self, dimension: Dimension) -> dict[object, list[str]]:
        table: dict[object, list[str]] = {}
        for name in self.ids:
            for each in set(_keys(dimension, self.entities[name])):
                table.setdefault(each, []).append(name)
        return table


def _keys(dimension: Dimension, entity: Entity) -> Iterator[object]:
    """The keys an entity has in a dimension."""
    path = dimension.path
    value = dig(entity.attributes, path.keys) if path.keys else entity.id
    if dimension.kind == "has":
        yield from map(key, value) if isinstance(value, LISTS) else ()
    elif value is not None:
        yield key(value)


def _known(given: Entity, entities: Mapping[str, Entity]) -> Entity:
    known = entities.get(given.id)
    return Entity(given.id, {**known.attributes, **given.attributes}) if known else given


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _read_cursor(text: str) -> str:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return raw.decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        raise InvalidSearch(f"`{text}` is no cursor of a page") from None

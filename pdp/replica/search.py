"""Who may, what may be, and by which action: every known entity for which a request would be allowed.

What is allowed meets the condition of at least one policy that allows. So the conditions are put into an index, each
without what it demands of the entity sought; those that hold of the rest of the request say, by their guards, which
entities can come into question. These are decided one by one, in the order of their ids. Invariant: what is found is
what asking for each known entity would find.

A name that ends with `*`, such as `/finance/*`, stands for every known entity that begins so: what is found is what
would be found for one of them at least.
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

from msgspec.structs import replace

from authz import AuthFabricError, Entity, Request
from authz.predicate import Hidden, Path, Predicate, compile_predicate, paths, widen
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
"""Maximum decisions for one page; a page that ends early has a cursor to go on from."""
MOST_FOUND = 500
MOST_MEANT = 1000
"""Maximum known entities that a name with `*` may match."""
MOST_DEPENDED = 20
"""Maximum policies named that depend on the context."""


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
    for each in (query.subject, query.object, query.action):
        if each is not None and "*" in each.id[:-1]:
            raise InvalidSearch(f"`{each.id}` is not understood: `*` may stand at the end of a name only")
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
        named: Callable[[], Iterable[tuple[str, Predicate]]] = tuple,
    ) -> None:
        """`conditions` are such that whatever is allowed meets one of them; attributes that are `hidden` are
        looked up only when a request is decided; `named` are all policies, with their conditions."""
        self._decider = decider
        self._named = named
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
        meant = self._meant(query)
        candidates, depends = await asyncio.to_thread(self._candidates, side, query, meant)
        found: list[str] = []
        decided, epoch, step = 0, 0, max(1, SLICE // len(meant))
        for start in range(0, len(candidates), step):
            several = candidates[start : start + step]
            entities = [side.population.entities[each] for each in several]
            requests = [question(one, each, self._entities) for each in entities for one in meant]
            decisions = iter(await self._decider.decide_many(requests))
            for name in several:
                own = list(islice(decisions, len(meant)))
                epoch = own[0].epoch
                decided += len(own)
                if any(each.allowed for each in own):
                    found.append(name)
                if len(found) == query.limit or decided >= MOST_DECISIONS:
                    more = name != candidates[-1]
                    return SearchPage(tuple(found), _cursor(name) if more else "", epoch, depends=depends)
        return SearchPage(tuple(found), "", epoch, depends=depends)

    def _meant(self, query: SearchQuery) -> list[SearchQuery]:
        """The query for every known entity that its names with `*` stand for. Raises InvalidSearch."""
        several = [query]
        for root in sorted(ROOTS - {query.wanted}):
            name = getattr(query, root).id
            if not name.endswith("*"):
                continue
            known = _Population(_populations(self._entities)[root]).under(name[:-1])
            if not 0 < len(known) * len(several) <= MOST_MEANT:
                told = "no known" if not known else f"more than {MOST_MEANT:,} known"
                raise InvalidSearch(f"`{name}` stands for {told} {root}s: name one, or begin otherwise")
            said = getattr(query, root).attributes
            several = [replace(one, **{root: Entity(each, said)}) for one in several for each in known]
        return several

    def _candidates(
        self, side: _Side, query: SearchQuery, meant: Sequence[SearchQuery]
    ) -> tuple[Sequence[str], tuple[str, ...]]:
        """Whoever may be found, in order; and the policies that may decide otherwise in another context."""
        after = _read_cursor(query.cursor)
        asked = [question(each, Entity("any"), self._entities) for each in meant]
        several = [side.candidates(each, after, query.under) for each in asked]
        depends = side.depends(asked, self._named)
        return several[0] if len(several) == 1 else sorted(set().union(*several)), depends

    def _prepare(self, wanted: Wanted) -> _Side:
        return _Side(wanted, self._conditions(), _populations(self._entities)[wanted], self._hidden)


class _Side:
    """What is needed to search for one of subject, object and action."""

    def __init__(
        self, wanted: Wanted, conditions: Iterable[Predicate], entities: Mapping[str, Entity], hidden: Hidden
    ) -> None:
        self.population = _Population(entities)
        self._wanted = wanted
        self._hidden = hidden
        self._contextual: list[_Contextual] | None = None
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

    def depends(
        self, asked: Sequence[Request], named: Callable[[], Iterable[tuple[str, Predicate]]]
    ) -> tuple[str, ...]:
        """The policies that could apply and look at facts of the context that were not given, by name."""
        if self._contextual is None:
            self._contextual = list(self._looking(named()))
        found = (each.name for each in self._contextual if any(map(each.leaves_open, asked)))
        return tuple(islice(found, MOST_DEPENDED))

    def _looking(self, named: Iterable[tuple[str, Predicate]]) -> Iterator[_Contextual]:
        unseen = {self._wanted, "context"}
        for name, condition in named:
            if facts := frozenset(path for path in paths(condition) if path.root == "context"):
                rest = widen(condition, lambda path: path.root in unseen or self._hidden(path))
                yield _Contextual(name, compile_predicate(rest), facts)


class _Contextual(typing.NamedTuple):
    """A policy that looks at the context."""

    name: str
    applies: Callable[[Request], bool]
    """Whether it could apply, as far as can be told before the entity sought and the context are known."""
    facts: frozenset[Path]

    def leaves_open(self, request: Request) -> bool:
        """Whether it could apply to a request, and looks at facts that this does not give."""
        try:
            return self.applies(request) and any(
                dig(request.context, each.keys) is None for each in self.facts
            )
        except Exception:  # what cannot be evaluated may apply
            return True


def _populations(entities: Entities) -> dict[str, Mapping[str, Entity]]:
    return {"subject": entities.subjects, "object": entities.objects, "action": entities.actions}


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

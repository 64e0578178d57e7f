"""An index of conditions: which may cover a given one, looking only at those that could.

A condition that needs one of some keys can cover another only if the other needs one of those too. Each is filed under
its rarest guard, and looked up by one key of each guard of the other. What is left out covers nothing that this
reasoning sees; it may in ways that guards do not show.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from authz.predicate import Predicate
from pdp.engine.access_predicates import MANY_KEYS, Dimension, guards

T = TypeVar("T")


class CoverIndex(Generic[T]):
    """Items by the conditions under which they matter."""

    def __init__(self, items: Iterable[tuple[Predicate, T]]) -> None:
        entries = [(guards(condition), item) for condition, item in items]
        shared = Counter((dim, key) for found, _ in entries for dim in found for key in found[dim])
        self._filed: dict[Dimension, dict[object, list[T]]] = defaultdict(lambda: defaultdict(list))
        self._anywhere: list[T] = []
        for found, item in entries:
            options = [dim for dim in found if 0 < len(found[dim]) <= MANY_KEYS]
            rarest = min(options, key=lambda dim: max(shared[dim, key] for key in found[dim]), default=None)
            if rarest is None:
                self._anywhere.append(item)
            else:
                for key in found[rarest]:
                    self._filed[rarest][key].append(item)

    def candidates(self, condition: Predicate) -> Iterator[T]:
        """Items whose condition may cover this one, each once."""
        yield from self._anywhere
        for dimension, needed in guards(condition).items():
            table = self._filed.get(dimension)
            if table and needed:
                key = next(iter(needed))
                for each in _prefixes(key) if dimension.kind == "under" else (key,):
                    yield from table.get(each, ())


def _prefixes(key: object) -> Iterator[str]:
    text = str(key)
    return (text[:length] for length in range(1, len(text) + 1))

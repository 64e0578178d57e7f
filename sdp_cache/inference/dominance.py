"""A dominance graph: pairs known to dominate, pairs known not to, and all that follows.

Kept closed under transitivity in integer masks, one bit a node, so that a question costs one operation on
bits however many pairs were learned. Invariants, for every node x: `_below[x]` are the nodes reached from
x, `_above[x]` those that reach x, and `_not[x]` the nodes that some node of `_above[x]` is known not to
dominate. So x dominates y if y is in `_below[x]`, and does not if `_not[x]` meets `_below[y]`: else that
pair known not to dominate would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from sdp_cache.inference.closure import components, gather

Name = TypeVar("Name", bound=Hashable)


def _positions(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Dominance(Generic[Name]):
    """What is known of who dominates whom, each pair with the answer that taught it."""

    __slots__ = ("_above", "_below", "_nodes", "_not", "_pairs", "_refused", "_size")

    def __init__(self) -> None:
        self._nodes: dict[Name, int] = {}
        self._below: list[int] = []
        self._above: list[int] = []
        self._not: list[int] = []
        self._pairs: list[dict[int, str]] = []
        self._refused: list[dict[int, str]] = []
        self._size = 0

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def size(self) -> int:
        """How many pairs were learned; each is kept, for others it follows from may be taken out."""
        return self._size

    def dominates(self, x: Name, y: Name) -> bool | None:
        """Whether x dominates y; None if neither follows."""
        at_x, at_y = self._nodes.get(x), self._nodes.get(y)
        if at_x is None or at_y is None:
            return None
        if self._below[at_x] >> at_y & 1:
            return True
        return False if self._not[at_x] & self._below[at_y] else None

    def learn(self, x: Name, y: Name, dominates: bool, answer: str) -> bool:
        """Add a pair. False, and nothing is added, if the opposite was known."""
        at_x, at_y = self._node(x), self._node(y)
        if self.dominates(x, y) is not dominates and self.dominates(x, y) is not None:
            return False
        row = (self._pairs if dominates else self._refused)[at_x]
        self._size += at_y not in row
        row[at_y] = answer
        if dominates:
            self._join(at_x, at_y)
        else:
            for each in _positions(self._below[at_x]):
                self._not[each] |= 1 << at_y
        return True

    def without(self, gone: Callable[[Name], bool]) -> Dominance[Name]:
        """The same without some nodes and all that was learned of them; the very same if it has none of those."""
        stay = {at: name for name, at in self._nodes.items() if not gone(name)}
        if len(stay) == len(self._nodes):
            return self
        rest: Dominance[Name] = Dominance()
        new = {at: rest._node(name) for at, name in stay.items()}
        for mine, its in ((self._pairs, rest._pairs), (self._refused, rest._refused)):
            for at in stay:
                its[new[at]] = {new[y]: answer for y, answer in mine[at].items() if y in new}
        rest._size = sum(map(len, (*rest._pairs, *rest._refused)))
        rest._close()
        return rest

    def why(self, x: Name, y: Name) -> tuple[str, ...]:
        """The answers from which it follows that x dominates y, or does not."""
        at_x, at_y = self._nodes[x], self._nodes[y]
        if self._below[at_x] >> at_y & 1:
            return tuple(self._path(at_x, at_y))
        for above in _positions(self._above[at_x]):
            for below, answer in self._refused[above].items():
                if self._below[at_y] >> below & 1:
                    return (answer, *self._path(above, at_x), *self._path(at_y, below))
        return ()

    def _node(self, name: Name) -> int:
        at = self._nodes.get(name)
        if at is None:
            at = self._nodes[name] = len(self._nodes)
            self._below.append(1 << at)
            self._above.append(1 << at)
            self._not.append(0)
            self._pairs.append({})
            self._refused.append({})
        return at

    def _close(self) -> None:
        """Establish the invariants from the pairs that were learned."""
        above: list[list[int]] = [[] for _ in self._pairs]
        for x, row in enumerate(self._pairs):
            for y in row:
                above[y].append(x)
        lowest_first = components(self._pairs, above)
        selves = [1 << x for x in range(len(above))]
        refused = [sum(1 << y for y in row) for row in self._refused]
        self._below = gather(lowest_first, self._pairs, selves)
        self._above = gather(reversed(lowest_first), above, selves)
        self._not = gather(reversed(lowest_first), above, refused)

    def _join(self, x: int, y: int) -> None:
        if self._below[x] >> y & 1:
            return
        above, below, refused = self._above[x], self._below[y], self._not[x]
        for each in _positions(above):
            self._below[each] |= below
        for each in _positions(below):
            self._above[each] |= above
            self._not[each] |= refused

    def _path(self, start: int, end: int) -> Iterator[str]:
        """The answers along a shortest path."""
        came: dict[int, tuple[int, str]] = {}
        queue = deque([start])
        while end not in came and start != end:
            here = queue.popleft()
            for step, answer in self._pairs[here].items():
                if step not in came:
                    came[step] = (here, answer)
                    queue.append(step)
        while end != start:
            end, answer = came[end]
            yield answer

"""Transitive closure by strongly connected components: what each node gathers from all that it reaches.

After Sharir, "A Strong-Connectivity Algorithm and its Applications in Data Flow Analysis" (1981). Invariant: components
come each after all those it leads to, so an edge costs one operation on masks, on cycles or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

Edges: TypeAlias = Sequence[Collection[int]]
"""For each node those it leads to."""


def components(successors: Edges, predecessors: Edges) -> list[list[int]]:
    """The nodes that reach each other, put together; each such component after those it leads to."""
    order = [node for tree in _trees(predecessors, range(len(predecessors))) for node in tree]
    return list(_trees(successors, reversed(order)))


def gather(ordered: Iterable[Collection[int]], successors: Edges, own: Sequence[int]) -> list[int]:
    """For each node, the union of the masks that it and the nodes reached from it have of their own."""
    gathered = [0] * len(own)
    for component in ordered:
        together = 0
        for node in component:
            together |= own[node]
            for step in successors[node]:
                together |= gathered[step]
        for node in component:
            gathered[node] = together
    return gathered


def _trees(successors: Edges, starts: Iterable[int]) -> Iterator[list[int]]:
    """What is reached from each start and from none before it, the deepest first."""
    seen = [False] * len(successors)
    for start in starts:
        tree: list[int] = []
        path = [] if seen[start] else [(start, iter(successors[start]))]
        seen[start] = True
        while path:
            node, steps = path[-1]
            step = next((each for each in steps if not seen[each]), None)
            if step is None:
                tree.append(node)
                path.pop()
            else:
                seen[step] = True
                path.append((step, iter(successors[step])))
        if tree:
            yield tree

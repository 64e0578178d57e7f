"""Whether a question could have been answered: whether a PDP was there, and a way to it, all the while."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from authfabric.chaos.record import LinkState, ProcessState, Run


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was up at an instant."""

    down: frozenset[str]
    """Processes that do not run."""
    cut: frozenset[tuple[str, str]]
    """Links that let nothing through, in one direction at least."""


class Topology:
    """Who could reach whom, from instant to instant."""

    def __init__(self, run: Run, states: Iterable[ProcessState | LinkState]) -> None:
        self._nodes, self._pdps = run.nodes, run.pdps
        down, cut = set[str](), set[tuple[str, str]]()
        self._times, self._snapshots = [float("-inf")], [Snapshot(frozenset(), frozenset())]
        for each in sorted(states, key=lambda state: state.at):
            if isinstance(each, ProcessState):
                (down.discard if each.up else down.add)(each.who)
            else:
                (cut.discard if each.up else cut.add)((each.here, each.there))
            self._times.append(each.at)
            self._snapshots.append(Snapshot(frozenset(down), frozenset(cut)))

    def answerable(self, pep: str, asked: float, given_up: float) -> bool:
        """Whether at every instant between the two some PDP could be reached that could reach the store."""
        first, last = bisect_right(self._times, asked) - 1, bisect_right(self._times, given_up) - 1
        return all(self._served(pep, each) for each in self._snapshots[first : last + 1])

    def _served(self, pep: str, state: Snapshot) -> bool:
        if pep in state.down:
            return False  # whoever is frozen waits for itself
        running = [node for node in self._nodes if node not in state.down]
        for island in _islands(running, state.cut):
            if 2 * len(island) <= len(self._nodes):
                continue  # no majority of the store's servers: leases end here
            near = {
                each for each in self._pdps if each not in state.down and _touches(each, island, state.cut)
            }
            if near and _touches(pep, island, state.cut):
                return True
        return False


def _islands(nodes: Iterable[str], cut: Collection[tuple[str, str]]) -> list[frozenset[str]]:
    """The groups of servers that all reach each other, each as large as can be."""
    islands: list[frozenset[str]] = []
    rest = list(nodes)
    for node in rest:
        group = {node}
        for other in rest:
            if all(other == each or not {(other, each), (each, other)} & set(cut) for each in group):
                group.add(other)
        islands.append(frozenset(group))
    return islands


def _touches(member: str, island: Iterable[str], cut: Collection[tuple[str, str]]) -> bool:
    return any((member, node) not in cut for node in island)

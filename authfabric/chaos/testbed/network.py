"""The network of a run: every connection between two processes goes through a link that can be cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic

from authfabric.chaos.record import LinkState, Recorder
from authfabric.chaos.testbed.proxy import Link


class Network:
    """Links by who connects to whom."""

    def __init__(self, record: Recorder) -> None:
        self._links: dict[tuple[str, str], Link] = {}
        self._record = record

    async def open(self, here: str, there: str, port: int) -> Link:
        """A link by which one reaches the port of the other."""
        link = Link("127.0.0.1", port)
        await link.start()
        self._links[here, there] = link
        return link

    def __getitem__(self, ends: tuple[str, str]) -> Link:
        return self._links[ends]

    def between(self, some: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
        """The links from one side to the other, in either direction of connecting."""
        left, right = set(some), set(others)
        return [
            (here, there)
            for here, there in self._links
            if (here in left and there in right) or (here in right and there in left)
        ]

    def cut(self, some: Iterable[str], others: Iterable[str], *, one_way: bool = False) -> None:
        """Let nothing through between two sides; one way: nothing from the first to the second."""
        left = set(some)
        for here, there in self.between(left, others):
            link = self._links[here, there]
            if not one_way:
                link.cut()
            elif here in left:
                link.there.cut()
            else:
                link.back.cut()
            self._say(here, there)

    def slow(self, some: Iterable[str], others: Iterable[str], delay: float, loss: float = 0.0) -> None:
        """Have everything between two sides arrive late, and a share of it later still."""
        for ends in self.between(some, others):
            for way in (self._links[ends].there, self._links[ends].back):
                way.delay, way.loss = delay, loss

    def reset(self, some: Iterable[str], others: Iterable[str]) -> None:
        """Break the connections between two sides."""
        for ends in self.between(some, others):
            self._links[ends].reset()

    def mend(self, some: Iterable[str], others: Iterable[str]) -> None:
        for here, there in self.between(some, others):
            self._links[here, there].mend()
            self._say(here, there)

    def urls(self, member: str, nodes: Sequence[str]) -> str:
        """The servers as this member reaches them."""
        return ",".join(f"tls://127.0.0.1:{self._links[member, node].port}" for node in nodes)

    def stop(self) -> None:
        for link in self._links.values():
            link.stop()

    def _say(self, here: str, there: str) -> None:
        self._record(LinkState(monotonic(), here, there, self._links[here, there].is_open))

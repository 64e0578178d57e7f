"""Probes: messages that leave by one connection of a process and come back by another show that both work."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from functools import partial
from time import monotonic

from bus.errors import NotConnected
from bus.nats.connection import Connection

SILENT_SECONDS = 3.0
"""Seconds without a returned probe after which a connection does not count as working."""

_log = logging.getLogger("authfabric.bus")


class Probes:
    """The ways between the connections of a process."""

    def __init__(self, ways: Iterable[tuple[Connection, Connection]]) -> None:
        """Each way leads out by its first connection and back by its second."""
        self._ways = [(out, back, back.expect(partial(self._hear, n))) for n, (out, back) in enumerate(ways)]
        self._heard = [monotonic()] * len(self._ways)
        self._silent = False

    @property
    def heard_at(self) -> float:
        """When something last came back on the way that has been silent for longest, by the monotonic clock."""
        return min(self._heard)

    @property
    def connected(self) -> bool:
        """Whether all connections say that they are."""
        return all(out.ready and back.ready for out, back, _ in self._ways)

    @property
    def connections(self) -> list[Connection]:
        """All that lead out or back."""
        return list(dict.fromkeys(each for out, back, _ in self._ways for each in (out, back)))

    def send(self) -> None:
        """Send a message out on each way; log when nothing comes back on one, and when it does again."""
        for out, _, place in self._ways:
            with contextlib.suppress(NotConnected):
                out.send(place, b"")
        silent = monotonic() - self.heard_at > SILENT_SECONDS
        if silent != self._silent:
            self._silent = silent
            state = "does not come back" if silent else "comes back again"
            _log.warning("what is sent on one connection to the bus %s on another", state)

    def end(self) -> None:
        for _, back, place in self._ways:
            back.forget(place)

    def _hear(self, number: int, payload: bytes, nobody: bool) -> None:
        if not nobody:
            self._heard[number] = monotonic()

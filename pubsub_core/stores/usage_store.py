"""The use of clients' rates, in a file: a restarted broker goes on counting.

It is written every second in which something was counted, and when the broker stops; one that is killed forgets what it
has counted since.
"""

from __future__ import annotations

import logging
from collections import deque
from pathlib import Path

import msgspec

from authz import AuthFabricError
from bus.identity import write_private
from pubsub_core.access import Counted as Used
from pubsub_core.access import Ledger
from pubsub_core.errors import EventError
from pubsub_core.replay import Pace, Replays
from pubsub_core.rules import Counted, Rates

_log = logging.getLogger("authfabric.events")


class _Usage(msgspec.Struct):
    rates: list[Counted] = []
    """Of rules, by `at_most`."""
    used: list[Used] = []
    """Of capabilities."""
    replayed: list[tuple[tuple[str, str], list[tuple[float, int]]]] = []
    """Of rules about replays, by `AT MOST`."""


_decode = msgspec.msgpack.Decoder(_Usage).decode


class UsageStore:
    """The file, or no file."""

    def __init__(self, path: Path | None, rates: Rates, ledger: Ledger, replays: Replays) -> None:
        """Go on from what the file says. Raises EventError if there is one and it cannot be read."""
        self._path = path
        self._rates = rates
        self._ledger = ledger
        self._replays = replays
        self._replayed: tuple[tuple[tuple[str, str], list[tuple[float, int]]], ...] = ()
        if path is not None and path.exists():
            try:
                usage = _decode(path.read_bytes())
            except (OSError, msgspec.MsgspecError, AuthFabricError) as error:
                problem = f"the file of what clients have used `{path}` cannot be read: {error}"
                raise EventError(problem) from error
            rates.restore(usage.rates)
            ledger.restore(usage.used)
            replays.paces.update((who, Pace(deque(sent))) for who, sent in usage.replayed)

    def save(self) -> None:
        """Write down what has changed, if anything has."""
        replayed = tuple((who, pace.sent) for who, pace in self._replays.paces.items())
        if self._path is None or not (
            self._rates.changed or self._ledger.changed or replayed != self._replayed
        ):
            return
        self._rates.changed = self._ledger.changed = False
        self._replayed = replayed
        usage = _Usage(self._rates.counted(), self._ledger.counted(), list(replayed))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._path, msgspec.msgpack.encode(usage), replace=True)
        except (OSError, AuthFabricError) as error:
            _log.warning("what clients have used cannot be written down: %s", error)

"""Connection accounting: how many connections each key has, and whether one exceeds its rate. Pure: time comes in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bus.server import Connected
from pdp.access.control import read_label


@dataclass(frozen=True, slots=True)
class Share:
    """The rate limit of one connection. One that exceeds it is ended, and its key is banned for a while."""

    messages_per_second: float = 100_000.0
    bytes_per_second: float = 256 * 1024 * 1024
    subscriptions: int = 200_000
    ban_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class _Seen:
    messages: int
    bytes: int
    at: float


class ConnectionAccounting:
    """The connections of all servers, as events and looks tell of them."""

    def __init__(self, share: Share = Share()) -> None:
        self.share = share
        self._keys: dict[tuple[str, int], str] = {}
        self._counts: dict[str, int] = {}
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._banned: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def count(self, key: str) -> int:
        """How many connections a key has."""
        return self._counts.get(key, 0)

    def came(self, connected: Connected) -> None:
        place = (connected.server, connected.number)
        if place not in self._keys:
            key, _ = read_label(connected.label)
            self._keys[place] = key
            self._counts[key] = self._counts.get(key, 0) + 1

    def left(self, connected: Connected) -> None:
        place = (connected.server, connected.number)
        self._seen.pop(place, None)
        key = self._keys.pop(place, None)
        if key is not None:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def banned(self, key: str, at: float) -> bool:
        until = self._banned.get(key)
        if until is not None and until <= at:
            del self._banned[key]
            return False
        return until is not None

    def ban(self, key: str, at: float) -> None:
        self._banned[key] = at + self.share.ban_seconds

    def look(self, connections: Iterable[Connected], at: float) -> list[Connected]:
        """Those who have used more than their share since the last look."""
        return [each for each in connections if self._exceeds(each, at)]

    def _exceeds(self, connected: Connected, at: float) -> bool:
        self.came(connected)
        place = (connected.server, connected.number)
        before = self._seen.get(place)
        self._seen[place] = _Seen(connected.messages, connected.bytes, at)
        if connected.subscriptions > self.share.subscriptions:
            return True
        if before is None or at <= before.at:
            return False
        seconds = at - before.at
        return (
            connected.messages - before.messages > self.share.messages_per_second * seconds
            or connected.bytes - before.bytes > self.share.bytes_per_second * seconds
        )

"""The ports of a broker: interfaces of the reader of the stream, and of the sender of past events."""

from __future__ import annotations

from typing import Protocol

from pubsub_core.delivery import Due


class Reading(Protocol):
    """Reads what other brokers have published, as far as it can be taken here."""

    @property
    def paused(self) -> bool: ...

    def go_on(self) -> None: ...

    def look_again(self) -> None: ...


class RuleReplays(Protocol):
    """Sends past events that are due by a rule."""

    def begin(self, due: Due) -> None: ...

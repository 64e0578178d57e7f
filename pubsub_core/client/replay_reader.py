"""Reading past events to their end: in order of time, each once, although the broker may be restarted meanwhile."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NoReturn

import msgspec

from pubsub_core.client.replay_progress import Progress
from pubsub_core.client.subscriber import Delivered, Subscriber
from pubsub_core.errors import Refused, ReplayIncomplete
from pubsub_core.events import Event, Missed
from pubsub_core.messages import Ended, Replay

if TYPE_CHECKING:
    from pubsub_core.client.session import ClientSession


class Replayed(Subscriber):
    """Past events: `async for event in replayed`. Raises Refused if they may no longer be seen.

    At the end it raises ReplayIncomplete if something is missing that should have been there.
    """

    if TYPE_CHECKING:  # it is the same at run time

        async def __anext__(self) -> Delivered:
            """The next past event: what is missing is said at the end."""

    def __init__(self, client: ClientSession, number: int, asked: Replay) -> None:
        super().__init__(client, number, asked.type, asked.filter)
        self.caught_up = False
        self._asked = msgspec.structs.replace(asked, number=number)
        self._progress = Progress()

    @property
    def call(self) -> Replay:
        """What was asked for, as far as it has not come."""
        start = self._asked.start if self._progress.start is None else self._progress.start
        return msgspec.structs.replace(self._asked, start=start)

    def _past_is_over(self, word: Ended) -> NoReturn:
        if word.refused:
            raise Refused("replay", self.name, word.refused)
        if self.missing:
            raise ReplayIncomplete(self.name, self.missing)
        raise StopAsyncIteration

    def _is_new(self, event: Event) -> bool:
        return self._progress.is_new(event)

    def begin_again(self) -> None:
        """What was not read comes again."""
        super().begin_again()
        self._queue.clear()

    def _tell(self, missed: Missed) -> None:
        """What is missing is said at the end."""
        self.missing += (missed.detail,)

    def _end_past(self, ended: Ended) -> None:
        self.caught_up, self._word = True, ended
        self.missing += ended.missing
        self._client.inbox.subscribers.pop(self.number, None)


def unix_time(at: float | datetime | None) -> float | None:
    """Unix seconds. Raises ValueError for a time of which nobody knows where it is meant."""
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise ValueError("a time must say its zone: `datetime.now(UTC)`")
    return at.timestamp()

"""What clients have used up of the rates in their capabilities, counted for all subscriptions of a client together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from authz.spki import Grant, UseRefused
from authz.spki.condition import Rate
from authz.spki.use import Spent, Tally, Use, permit
from pubsub_core.access.restriction import Metered

FEW = 1024
"""Maximum clients counted before those whose periods are over are dropped."""

Counted: TypeAlias = tuple[str, Grant, Rate, int, int]
"""A client, a grant and its rate, and how often it was used in which period."""


class Ledger:
    """A broker's counts, by client.

    Invariant: a count outlives the subscription, the advertisement and the session it was made in, so that no client
    begins a period anew by asking once more.
    """

    def __init__(self) -> None:
        self._spent: dict[str, Spent] = {}
        self._limit = FEW
        self.changed = False
        """Whether something was counted since this was last set to false."""

    def counted(self) -> list[Counted]:
        """Everything, to be kept."""
        return [
            (client, grant, rate, tally.period, tally.count)
            for client, spent in self._spent.items()
            for (grant, rate), tally in spent.items()
        ]

    def restore(self, counted: Iterable[Counted]) -> None:
        """Go on from what was kept."""
        for client, grant, rate, period, count in counted:
            spent = {**self._spent.get(client, {}), (grant, rate): Tally(period, count)}
            self._spent[client] = spent

    def __len__(self) -> int:
        return len(self._spent)

    def use(self, client: str, metered: Metered, now: float) -> bool:
        """Count one use by the key of a client, if hours and rates permit it."""
        use = Use(metered.right, metered.name, now)
        try:
            left = permit(metered.capability, use, self._spent.get(client, {})).spent
        except UseRefused:
            return False
        if left:
            self._spent[client] = _current(left, now)
            self.changed = True
            self._make_room(now)
        return True

    def _make_room(self, now: float) -> None:
        if len(self._spent) > self._limit:
            current = ((client, _current(spent, now)) for client, spent in self._spent.items())
            self._spent = {client: spent for client, spent in current if spent}
            self._limit = max(FEW, 2 * len(self._spent))


def _current(spent: Spent, now: float) -> Spent:
    """Without periods that are over."""
    return {
        (grant, rate): tally for (grant, rate), tally in spent.items() if tally.period >= now // rate.seconds
    }

"""The members that apply a domain's policies, and the release each has reached. Soft state: silence is forgotten.

Invariant: a member's release, and that it has left, come from statuses signed by its own key; a status that is replayed
after a later one changes nothing. A release is known by its hash, never by its number.
"""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from authz import PublicKey
from bus.feeds.status_reporter import REPEAT_SECONDS
from bus.wire import MemberList, MemberStatus

SILENT_SECONDS = 3.5
"""Seconds without a word after which a member counts as silent. Members answer a roll call within two seconds."""
FORGET_SECONDS = 3600.0
"""Seconds after its last message for which a member without a lease is remembered."""

MOST = 65_536
"""Maximum members remembered, so that a flood of invented ones cannot fill the memory."""
MOST_MARKS = 32_768
"""Maximum members named in one request for those that the asker has not heard."""
_PER_ROLL = 1000


class Standing(enum.StrEnum):
    """How a member stands to a release."""

    APPLIED = "applied"
    BEHIND = "behind"
    REFUSED = "refused"
    """It is behind, and says why."""
    SILENT = "silent"
    """It was heard lately and is not any more: dead, frozen, or cut off and still deciding by what it has."""


_Who: TypeAlias = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Heard:
    """A member as it was last heard, by the local clock."""

    status: MemberStatus
    heard: float
    ahead: float | None = None
    """Seconds by which its clock is ahead of this one, when it last answered a call for details; None if unknown."""

    def standing(self, releases: Collection[str], now: float) -> Standing:
        """How it stands to a release, given by its hash and those of the releases after it."""
        if self.status.release in releases and self.status.ok:
            return Standing.APPLIED
        if now - self.heard > SILENT_SECONDS:
            return Standing.SILENT
        return Standing.BEHIND if self.status.ok else Standing.REFUSED

    @property
    def until(self) -> float:
        """When it stops at the latest, or is assumed to: it may have lived until its next status was due."""
        lease = FORGET_SECONDS if self.status.lease is None else self.status.lease
        return self.heard + REPEAT_SECONDS + lease


class MemberTable:
    """Everyone heard of, by name and key; those who have left too, until what others heard before is forgotten."""

    def __init__(self) -> None:
        self._entries: dict[_Who, Heard] = {}
        self._forgot_at = float("-inf")

    def hear(self, status: MemberStatus, now: float, ahead: float | None = None) -> None:
        """Take in what a member says of itself: signed by it, and not earlier than what it said before.

        What it has said already is not verified again. `ahead` is how its date differs from this clock, if it was
        signed just now.
        """
        who = (status.member, status.signer)
        known = self._entries.get(who)
        if known is None:
            if self._has_room(now) and status.authentic:
                self._entries[who] = Heard(status, now, ahead)
        elif status == known.status or (status.at > known.status.at and status.authentic):
            ahead = known.ahead if ahead is None else ahead
            self._entries[who] = Heard(status, max(now, known.heard), ahead)

    def absorb(self, roll: MemberList, now: float) -> None:
        """Take in what others have heard, where it is newer."""
        for status, ago in roll.members:
            self.hear(status, now - max(ago, 0.0))

    @property
    def marks(self) -> list[bytes]:
        """What stands for each member heard of, as far as a message has room."""
        return [each.status.mark for each in itertools.islice(self._entries.values(), MOST_MARKS)]

    def forget(self, now: float) -> None:
        """Drop those who cannot be there any more."""
        self._forgot_at = now
        self._entries = {name: each for name, each in self._entries.items() if now < each.until}

    def rolls(self, now: float, but: Collection[bytes] = ()) -> Iterator[MemberList]:
        """Everyone but those with these marks, in messages of a bearable size."""
        unheard = (each for each in self._entries.values() if not but or each.status.mark not in but)
        told = [(each.status, now - each.heard) for each in unheard]
        return (MemberList(told[start : start + _PER_ROLL]) for start in range(0, len(told), _PER_ROLL))

    def _has_room(self, now: float) -> bool:
        if len(self._entries) >= MOST and now > self._forgot_at + REPEAT_SECONDS:
            self.forget(now)
        return len(self._entries) < MOST

    def named(self) -> dict[str, Heard]:
        """The members that are there by name, in order; those that share one by their keys as well."""
        there = [(who, entry) for who, entry in self._entries.items() if not entry.status.leaving]
        shared = Counter(name for (name, _), _ in there)
        names = {
            name if shared[name] == 1 else f"{name} ({PublicKey(signer)})": entry
            for (name, signer), entry in there
        }
        return dict(sorted(names.items()))

    def standings(self, releases: Collection[str], now: float) -> dict[str, Standing]:
        """How each member stands to a release, by name; it is given by its hash and those of the releases after it."""
        return {name: entry.standing(releases, now) for name, entry in self.named().items()}

    def __len__(self) -> int:
        return sum(not each.status.leaving for each in self._entries.values())

"""The members that apply a domain's policies, and the release each has reached. Soft state: silence is forgotten.

Invariant: a member's release, and that it has left, come from statuses signed by its own key; a status that is replayed
after a later one changes nothing. A release is known by its hash, never by its number.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from authz import PublicKey
from bus.messages import MemberStatus, Roll

SILENT_SECONDS = 3.5
"""Members speak every second: after so long without a word something is wrong."""
FORGET_SECONDS = 3600.0
"""How long after its last word a member without a lease is remembered: nothing bounds how long it goes on."""

MOST = 65_536
"""More members than this are not remembered: a flood of made-up ones must not fill the memory."""
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
class Entry:
    """A member as it was last heard, by the clock of whoever asks."""

    status: MemberStatus
    heard: float

    def standing(self, releases: Collection[str], now: float) -> Standing:
        """How it stands to a release, given by its hash and those of the releases after it."""
        if self.status.release in releases and self.status.ok:
            return Standing.APPLIED
        if now - self.heard > SILENT_SECONDS:
            return Standing.SILENT
        return Standing.BEHIND if self.status.ok else Standing.REFUSED

    @property
    def until(self) -> float:
        """From when on it cannot go on any more, or is taken not to."""
        lease = FORGET_SECONDS if self.status.lease is None else self.status.lease
        return self.heard + max(lease, SILENT_SECONDS)


class Rollcall:
    """Everyone heard of, by name and key."""

    def __init__(self) -> None:
        self._entries: dict[_Who, Entry] = {}

    def hear(self, status: MemberStatus, now: float) -> None:
        """Take in what a member says of itself: signed by it, and later than what it said before."""
        who = (status.member, status.signer)
        known = self._entries.get(who)
        if (known is not None and status.at <= known.status.at) or not status.authentic:
            return
        if status.leaving:
            self._entries.pop(who, None)
        elif known is not None or len(self._entries) < MOST:
            self._entries[who] = Entry(status, now)

    def absorb(self, roll: Roll, now: float) -> None:
        """Take in what others have heard, where it is newer."""
        for status, ago in roll.members:
            if not status.leaving:
                self.hear(status, now - max(ago, 0.0))

    def forget(self, now: float) -> None:
        """Drop those who cannot be there any more."""
        self._entries = {name: each for name, each in self._entries.items() if now < each.until}

    def rolls(self, now: float) -> Iterator[Roll]:
        """Everyone, in messages of a bearable size."""
        heard = [(each.status, now - each.heard) for each in self._entries.values()]
        return (Roll(heard[start : start + _PER_ROLL]) for start in range(0, len(heard), _PER_ROLL))

    def standings(self, releases: Collection[str], now: float) -> dict[str, Standing]:
        """How each member stands to a release, by name; it is given by its hash and those of the releases after it."""
        named = self._named()
        return {name: named[name].standing(releases, now) for name in sorted(named)}

    def __getitem__(self, member: str) -> MemberStatus:
        return self._named()[member].status

    def _named(self) -> dict[str, Entry]:
        """The members by name; those that share one by their keys as well."""
        shared = Counter(name for name, _ in self._entries)
        return {
            name if shared[name] == 1 else f"{name} ({PublicKey(signer)})": entry
            for (name, signer), entry in self._entries.items()
        }

    def __len__(self) -> int:
        return len(self._entries)

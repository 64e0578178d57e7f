"""A broker's place in one key group: it follows the manager's changes and puts the keys on the broker's ring."""

from __future__ import annotations

from pubsub_core.key_groups.key_group import Change, Welcome
from pubsub_core.key_groups.oft_member import Member
from pubsub_core.keys import DataKey, KeyRing, OutOfStep


class Membership:
    """What a broker knows of one group."""

    def __init__(self, group: str, own_key: bytes, ring: KeyRing) -> None:
        self.group = group
        self._own_key = own_key
        self._ring = ring
        self._member: Member | None = None
        self.epoch = 0
        """The newest epoch of which it has the key."""

    def take(self, welcome: Welcome) -> None:
        """Begin, or go on, with the manager's newest state. An older one changes nothing."""
        for key in welcome.keys:
            self._add(key.epoch, key.start, key.secret)
        self._ring.part(self.group, welcome.departed)
        seat = welcome.seat
        if seat is not None and (self._member is None or seat.version > self._member.version):
            self._member = Member(self._own_key, seat)

    def follow(self, change: Change) -> None:
        """Take up a new key. Raises OutOfStep if something was missed: then the manager must be asked.

        A change that is known already, told again, changes nothing.
        """
        offered = change.rekey.version
        if offered <= self.epoch:
            return
        if self._member is None:
            raise OutOfStep(self.epoch, offered)
        if self._member.version < offered:
            self._member.apply(change.rekey)
        self._add(offered, change.start, self._member.secret)
        self._ring.part(self.group, change.departed)

    def _add(self, epoch: int, start: float, secret: bytes) -> None:
        self._ring.add(DataKey(self.group, epoch, start, secret))
        self.epoch = max(self.epoch, epoch)

"""A key group: who its members are, until when, and which keys they have had. Pure: time comes with each call.

Its tree gives it a new secret when the schedule says so. Between two refreshes a member that joins with a capability
for the present key is given that key and takes its place in the tree at the next; one that leaves keeps its
place until then. So coming and going cost nothing while capabilities last.
"""

from __future__ import annotations

import math
import os

import msgspec
from msgspec.structs import replace

from pubsub_core.key_groups.oft import Draw, Rekey, Seat
from pubsub_core.key_groups.oft_tree import Tree, TreeRecord
from pubsub_core.key_groups.rotation_schedule import Tenure, may_have, next_refresh
from pubsub_core.keys import AdmissionRefused, mark

MAX_JOINING = 256
"""Maximum members that join the tree with one refresh; others wait for the next."""

MOST_HELD = 4_096
"""Maximum former members of a group that are remembered: those that left last."""

NOTICE = 0.25
"""Minimum seconds before a new key is used, so that every member has it."""


class Rules(msgspec.Struct, frozen=True, array_like=True):
    """How a group's keys come and go, in seconds."""

    period: float = 86_400.0
    """No key is used for longer."""
    delay: float = 600.0
    """Seconds for which a key is kept after its end, for events that are still under way."""
    lead: float = 2.0
    """Seconds by which a key is given out before it begins, so that all have it by then; less if someone is evicted."""


class GroupKey(msgspec.Struct, frozen=True, array_like=True):
    """A group's data key: its epoch, when it begins, and the key itself."""

    epoch: int
    start: float
    secret: bytes


class MemberRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a manager knows of a member."""

    own_key: bytes
    """Shared by the two of them alone."""
    tenure: Tenure
    since: int
    """The first epoch of which it may have the key."""
    asked: float
    """When it last asked to be admitted, by its own clock: what it asked before that is no longer heeded."""
    chain: bytes = b""
    """The capability by which it was admitted."""
    began: float = 0.0
    """When the first key began that it may have."""


class Held(msgspec.Struct, frozen=True, array_like=True):
    """Somebody could have the keys of a group: from the first that it was entitled to, until one that it was not."""

    member: str
    start: float
    end: float


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A new key, told to all members: when it begins, and how they come to it."""

    group: str
    start: float
    rekey: Rekey
    departed: dict[str, int] = {}
    """The marks of those who were members, each with the first epoch in which it was none."""


class Welcome(msgspec.Struct, frozen=True, array_like=True):
    """All that a member needs now: the keys it may have, and its place in the tree, if it has one yet."""

    group: str
    keys: tuple[GroupKey, ...]
    seat: Seat | None = None
    departed: dict[str, int] = {}
    """As in a change."""


class GroupRecord(msgspec.Struct, frozen=True, array_like=True):
    """A key group as it is stored."""

    id: str
    tree: TreeRecord = TreeRecord()
    members: dict[str, MemberRecord] = {}
    keys: tuple[GroupKey, ...] = ()
    change: Change | None = None
    """The last one: it is told again and again, for those who did not hear it."""
    departed: dict[str, int] = {}
    held: tuple[Held, ...] = ()
    """Who had keys and has none any more."""
    number: int = 0
    """How often it was stored."""

    def older(self, than: GroupRecord) -> bool:
        """Whether this cannot have come of another: what is sealed and was stored once may be put back."""
        return self.number < than.number or self.tree.version < than.tree.version


class KeyGroup:
    """One group in the hands of its manager."""

    def __init__(self, record: GroupRecord, rules: Rules, draw: Draw = os.urandom) -> None:
        self.id = record.id
        self.members = dict(record.members)
        self.keys = record.keys
        self.change = record.change
        self.departed = dict(record.departed)
        self.held = record.held
        self._rules = rules
        self._draw = draw
        self._tree = Tree.restore(record.tree, draw)

    def record(self) -> GroupRecord:
        tree = self._tree.record()
        return GroupRecord(self.id, tree, self.members, self.keys, self.change, self.departed, self.held)

    @property
    def epoch(self) -> int:
        return self.keys[-1].epoch if self.keys else 0

    @property
    def next_refresh(self) -> float | None:
        """When the present key must be followed by another; None if there is none."""
        if not self.keys:
            return None
        holders = (member.tenure for member in self.members.values())
        return next_refresh(self.keys[-1].start, self._rules.period, holders)

    def admit(self, name: str, joining: MemberRecord, now: float) -> None:
        """Make someone a member whose capability was verified, or a member again."""
        known = self.members.get(name)
        if known is not None and known.tenure.covers(now):
            # Its entitlement has had no gap, so it goes back to when it first came.
            tenure = replace(joining.tenure, start=min(known.tenure.start, joining.tenure.start))
            self.members[name] = replace(joining, tenure=tenure, since=known.since, began=known.began)
            return
        if known is not None:
            self._remember(name, known, now)
        if self.keys and may_have(joining.tenure, self.keys[-1].start):
            self.members[name] = replace(joining, since=self.epoch, began=self.keys[-1].start)
            return
        start = now + self._rules.lead if self.keys else now
        self.members[name] = replace(joining, since=self._tree.version + 1, began=start)
        self._refresh(start)

    def leave(self, name: str, asked: float = -math.inf) -> None:
        """Give someone no further keys. Its present one lasts no longer than its capability would have."""
        member = self.members.get(name)
        if member is not None:
            asked = max(asked, member.asked)
            self.members[name] = replace(member, tenure=replace(member.tenure, left=True), asked=asked)

    def evict(self, name: str, now: float) -> None:
        """Have someone's entitlement end now: its capability was taken back."""
        member = self.members.get(name)
        if member is not None:
            end = min(now, member.tenure.end)
            self.members[name] = replace(member, tenure=replace(member.tenure, end=end, left=True))

    def begin_anew(self, version: int, now: float) -> None:
        """Have everybody ask again, beyond this version of the tree: what is known here is older than that."""
        for name, member in sorted(self.members.items()):
            self._remember(name, member, now)
        self.members, self.keys, self.departed = {}, (), {}
        self._tree = Tree.restore(TreeRecord(version + 1), self._draw)
        self.change = Change(self.id, now, Rekey(version + 1))

    def tick(self, now: float) -> bool:
        """Refresh the key if that is due, and forget old ones; says whether anything has changed."""
        due = self.next_refresh
        if due is not None and now >= due - self._rules.lead:
            self._refresh(max(now + min(self._rules.lead, NOTICE), due))
            return True
        return self._forget(now)

    def welcome(self, name: str) -> Welcome:
        """What a member needs to know now. Raises AdmissionRefused for someone who is none."""
        if name not in self.members:
            raise AdmissionRefused("its capability ends before the next key begins")
        since = self.members[name].since
        seat = self._tree.seat(name) if name in self._tree else None
        keys = tuple(key for key in self.keys if key.epoch >= since)
        return Welcome(self.id, keys, seat, self.departed)

    def _refresh(self, start: float) -> None:
        """Let those leave and join who have been waiting, and give the rest a key that begins at this time."""
        staying = {name for name, member in self.members.items() if member.tenure.stays(start)}
        waiting = sorted(staying - self._tree.members)[:MAX_JOINING]
        gone = sorted(self._tree.members - staying)
        own_keys = {name: member.own_key for name, member in self.members.items()}
        former = self.members.keys() - staying
        for name in sorted(former):
            self._remember(name, self.members[name], start)
        self.members = {name: member for name, member in self.members.items() if name in staying}
        rekey = self._tree.rekey(own_keys, gone, waiting)
        if not len(self._tree):
            self.keys, self.change, self.departed = (), None, {}
            return
        self.departed |= {mark(name): self._tree.version for name in former}
        self._forget(start)
        self.keys = (*self.keys, GroupKey(self._tree.version, start, self._tree.secret))
        self.change = Change(self.id, start, rekey, self.departed)

    def _remember(self, name: str, member: MemberRecord, end: float) -> None:
        if member.began < end:
            self.held = (*self.held, Held(name, member.began, end))[-MOST_HELD:]

    def _forget(self, now: float) -> bool:
        """Drop the keys whose successor began longer ago than the destruction delay."""
        ended = {
            key
            for key, after in zip(self.keys, self.keys[1:], strict=False)
            if after.start + self._rules.delay <= now
        }
        self.keys = tuple(key for key in self.keys if key not in ended)
        oldest = self.keys[0].epoch if self.keys else 0
        self.departed = {name: since for name, since in self.departed.items() if since > oldest}
        return bool(ended)

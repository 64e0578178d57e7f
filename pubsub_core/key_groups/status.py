"""How key groups stand, for people to look at: no key is in it."""

from __future__ import annotations

import msgspec

from pubsub_core.key_groups.key_group import KeyGroup


class MemberStatus(msgspec.Struct, frozen=True):
    """One member, and until when it is entitled; None for always."""

    key: str
    since_epoch: int
    until: float | None = None
    leaving: bool = False
    began: float = 0.0
    """When the first key began that it may have; 0 if that was not noted."""


class HeldStatus(msgspec.Struct, frozen=True):
    """One that had keys and has none any more, and from when to when."""

    key: str
    start: float
    end: float


class GroupStatus(msgspec.Struct, frozen=True):
    """One key group."""

    id: str
    attributes: tuple[str, ...]
    epoch: int
    """0 if it has no key yet."""
    since: float | None
    """When the present key began."""
    next_refresh: float | None
    members: tuple[MemberStatus, ...] = ()
    held: tuple[HeldStatus, ...] = ()
    """Who was a member before."""

    @classmethod
    def of(cls, group: KeyGroup, attributes: list[str]) -> GroupStatus:
        members = tuple(
            MemberStatus(
                name,
                member.since,
                None if member.tenure.end == float("inf") else member.tenure.end,
                member.tenure.left,
                member.began,
            )
            for name, member in sorted(group.members.items())
        )
        since = group.keys[-1].start if group.keys else None
        held = tuple(HeldStatus(each.member, each.start, each.end) for each in group.held)
        return cls(group.id, tuple(attributes), group.epoch, since, group.next_refresh, members, held)


class KeyStatus(msgspec.Struct, frozen=True):
    """All key groups of a type."""

    type: str
    manager: str
    groups: tuple[GroupStatus, ...]

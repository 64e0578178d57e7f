"""How a type's keys are managed: by which plan and rules, since when, and which others they have replaced.

Invariant: of all that managers of one key have gone by, the one that was put in force last counts; what was replaced is
not put in force again by whoever merely starts with its options.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from pubsub_core.key_groups.key_group import Rules
from pubsub_core.keys import Group, Plan, PlanReplaced

GRACE = 60.0
"""Seconds for which brokers may still use a replaced plan: twice the interval in which they ask."""
RETIREMENT = 2 * GRACE
"""Seconds for which the groups of a replaced plan are managed, until nobody uses it."""
MAX_FORMER = 256
"""Maximum replaced plans that are remembered."""
_TICK = 0.001
"""Minimum seconds between two plans, whatever the clocks of replicas say."""


class Retired(msgspec.Struct, frozen=True, array_like=True):
    """A group of a plan that was replaced, and until when it is managed all the same."""

    group: Group
    until: float


class Ways(msgspec.Struct, frozen=True, array_like=True):
    """A plan and rules in force, as all replicas of a manager keep them."""

    plan: Plan
    rules: Rules
    since: float = 0.0
    """When they were put in force."""
    former: tuple[bytes, ...] = ()
    """The digests of those that were replaced, the last one last."""
    retired: tuple[Retired, ...] = ()

    @property
    def digest(self) -> bytes:
        content = msgspec.msgpack.encode((self.plan, self.rules))
        return hashlib.blake2b(content, digest_size=16).digest()

    def follow(self, before: Ways, type_: str, back: bool = False) -> Ways:
        """These in place of others. Raises PlanReplaced if they were replaced before, unless `back` is meant."""
        if self.digest == before.digest:
            return before
        if self.digest in before.former and not back:
            raise PlanReplaced(type_, before.since)
        former = (*(each for each in before.former if each != self.digest), before.digest)
        since = max(self.since, before.since + _TICK)
        replaced = (Retired(group, since + RETIREMENT) for group in before.plan.groups)
        retired = tuple(
            each
            for each in (*before.retired, *replaced)
            if each.until > since and each.group.id not in self.plan.by_id
        )
        return Ways(self.plan, self.rules, since, former[-MAX_FORMER:], retired)

    def groups(self, now: float) -> Mapping[str, Group]:
        """The groups that are managed at this time, by id."""
        return {**self.plan.by_id, **{each.group.id: each.group for each in self.retired if now < each.until}}

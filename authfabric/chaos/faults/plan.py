"""What is done to a fabric, and when: a schedule that follows from a seed. Pure.

There are three lanes, each with one fault after another: servers, members, and what users and strangers do. So at any
time at most one server and one member are in trouble, and releases come in between.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass


class Lane(enum.StrEnum):
    """Whom a fault strikes."""

    SERVERS = "servers"
    MEMBERS = "members"
    USERS = "users"


class FaultKind(enum.StrEnum):
    """What can happen."""

    NODE_KILLED = "node-killed"
    NODE_FROZEN = "node-frozen"
    NODE_RESTARTED = "node-restarted"
    PARTITION = "partition"
    ONE_WAY = "one-way-partition"
    LEADER_ISOLATED = "leader-in-minority"
    MINORITY = "members-in-minority"
    DELAY = "delay-and-loss"
    ROLLING_RESTART = "rolling-restart"
    STORE_EMPTIED = "store-emptied"
    STORE_RESTORED = "store-restored"
    BLOCK_CORRUPTED = "block-corrupted"
    DISK_FULL = "disk-full"
    PDP_KILLED = "pdp-killed"
    PDP_FROZEN = "pdp-frozen"
    PDP_RESTARTED = "pdp-restarted"
    PDP_CUT = "pdp-cut-from-store"
    PDP_SLOW = "pdp-slow"
    PDP_LYING = "pdp-lying"
    PDP_CLOCK = "pdp-clock-jump"
    PEP_KILLED = "pep-killed"
    PEP_FROZEN = "pep-frozen"
    PEP_CUT = "pep-cut-from-feed"
    ACCESS_KILLED = "access-control-killed"
    ACCESS_FROZEN = "access-control-frozen"
    BROKER_KILLED = "broker-killed"
    BROKER_FROZEN = "broker-frozen"
    BROKER_CUT = "broker-cut"
    CONNECTIONS_RESET = "connections-reset"
    PUSH = "push"
    FORGED_RELEASE = "forged-release"
    FORGED_MESSAGES = "forged-messages"
    CONNECTION_STORM = "connection-storm"
    GRANT = "grant"
    REVOCATION = "revocation"


LANES: dict[FaultKind, Lane] = {
    each: (
        Lane.SERVERS
        if each.value.startswith(("node", "partition", "one-way", "leader", "members-in", "delay", "rolling"))
        or each.value.startswith(("store", "block", "disk"))
        else Lane.USERS
        if each.value.startswith(("push", "forged", "connection-storm", "grant", "revocation"))
        else Lane.MEMBERS
    )
    for each in FaultKind
}

USUAL_PUSHES = 4
"""Pushes scheduled for each other act of users and strangers."""
SHORT, LONG = 6.0, 22.0
"""Seconds that a fault lasts at most: most end before a lease does, and every fifth outlasts one."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault to come."""

    kind: FaultKind
    pause: float
    """Seconds after the end of the one before."""
    seconds: float
    """How long it lasts."""
    choice: int
    """Which of those whom it may strike."""


def schedule(seed: int, lane: Lane, possible: Collection[FaultKind]) -> Iterator[Planned]:
    """The faults of a lane, without end. Each kind comes once before any comes again."""
    chance = random.Random(f"{seed} {lane}")
    kinds = [each for each in FaultKind if LANES[each] is lane and each in possible]
    while kinds:
        chance.shuffle(kinds)
        for kind in kinds:
            if lane is Lane.USERS and kind is not FaultKind.PUSH:
                for _ in range(USUAL_PUSHES):
                    yield _planned(FaultKind.PUSH, chance)
            yield _planned(kind, chance)


def _planned(kind: FaultKind, chance: random.Random) -> Planned:
    seconds = chance.uniform(SHORT, LONG) if chance.random() < 0.2 else chance.uniform(1.0, SHORT)
    return Planned(kind, chance.uniform(1.0, 4.0), seconds, chance.randrange(2**32))

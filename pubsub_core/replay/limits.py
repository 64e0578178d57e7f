"""Limits on concurrent replays for each client, whether it asked for them or rules started them.

A client is a key: whoever opens more sessions may have no more. Subscriptions that began in the past count as long as
they last, and not only until the past is through; so a client whose session was lost is not refused what it had.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubsub_core.delivery import Playback, Session
from pubsub_core.errors import Refused
from pubsub_core.messages import Tense

MOST_REPLAYS = 64
"""The most replays that a client may have asked for and not yet read."""
MOST_JOINED = 256
"""The most subscriptions with a start in the past that a client may have."""
MOST_DUE = 64
"""The most replays started by rules that may be under way in one session; others wait for their turn."""
MOST_OWED = 256
"""The most that may be under way or wait for one client: it is told of those that are left out."""


def admit(sessions: Iterable[Session], session: Session, playback: Playback, name: str) -> None:
    """Pass if the client may have another one. Raises Refused."""
    if playback.number in session.playbacks:
        raise Refused("replay", name, f"there is a replay {playback.number} already")
    own = [each for each in sessions if each.key == session.key]
    if playback.joined is None:
        if sum(map(_asked_for, own)) >= MOST_REPLAYS:
            problem = f"{MOST_REPLAYS} replays are under way for this client, the most there may be"
            raise Refused("replay", name, f"{problem}: read one to its end, or cancel it")
    elif sum(map(_joined, own)) >= MOST_JOINED:
        problem = f"{MOST_JOINED} subscriptions of this client began in the past, the most that may"
        raise Refused("replay", name, f"{problem}: cancel one, or subscribe without `from_`")


def has_room(session: Session) -> bool:
    """Whether a rule may start another one."""
    return sum(each.tense is Tense.AGAIN for each in session.playbacks.values()) < MOST_DUE


def _asked_for(session: Session) -> int:
    return sum(each.tense is Tense.PAST and each.joined is None for each in session.playbacks.values())


def _joined(session: Session) -> int:
    waiting = {each.number for each in session.playbacks.values() if each.joined is not None}
    return len(waiting.union(n for n, each in session.subscriptions.items() if each.start is not None))

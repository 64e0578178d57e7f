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
"""Maximum replays of a client that are not read to the end."""
MOST_JOINED = 256
"""Maximum subscriptions of a client that start in the past."""
MOST_DUE = 64
"""Maximum running replays started by rules in one session; others wait."""
MOST_OWED = 256
"""Maximum running and waiting replays of one client; it is told of those left out."""


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

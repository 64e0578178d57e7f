"""The broker's delivery state as one table: what each occurrence leads to in each state.

        hold(types)            hold()
    OPEN ---------> SOME_HELD ---------> ALL_HELD
         <---------           <---------
        release(types)         release()

A broker holds the types that a newer release of policies may touch, or everything while it does not know which these
are, until what it granted was asked anew. Holds are counted (`holds.py`): the state follows from who holds what.

| occurrence | OPEN | SOME_HELD | ALL_HELD |
| --- | --- | --- | --- |
| a client publishes | taken | waits if its types are held | waits |
| a client resumes its session | sent again | waits if its types are held | waits |
| a bundle is recorded, or carried | passed on | passed on, held types parked | waits |
| events were missed | told | told | waits |
| a parcel is in the stream | read | read, held types parked | stays in the stream |
| keys have come | tried again | tried again | left until released |
| a client has room, or a second has passed | sent to | sent to, held types left out | left until released |
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class State(enum.StrEnum):
    """How much is delivered."""

    OPEN = "open"
    SOME_HELD = "some held"
    ALL_HELD = "all held"


class Occurrence(enum.StrEnum):
    """What a broker has to deal with."""

    PUBLISHED = "published"
    RESUMED = "resumed"
    RECORDED = "recorded"
    CARRIED = "carried"
    MISSED = "missed"
    PARCEL = "parcel"
    KEYS = "keys"
    ROOM = "room"


class Then(enum.Enum):
    """What to do then."""

    NOW = enum.auto()
    """It is dealt with; of held types nothing is delivered."""
    UNLESS_TOUCHED = enum.auto()
    """It is dealt with unless it concerns a held type."""
    LATER = enum.auto()
    """It is dealt with when nothing is held any more."""


_WHOLE = {State.OPEN: Then.NOW, State.SOME_HELD: Then.NOW, State.ALL_HELD: Then.LATER}
_BY_TYPE = {State.OPEN: Then.NOW, State.SOME_HELD: Then.UNLESS_TOUCHED, State.ALL_HELD: Then.LATER}
TABLE: Mapping[Occurrence, Mapping[State, Then]] = {
    Occurrence.PUBLISHED: _BY_TYPE,
    Occurrence.RESUMED: _BY_TYPE,
    Occurrence.RECORDED: _WHOLE,
    Occurrence.CARRIED: _WHOLE,
    Occurrence.MISSED: _WHOLE,
    Occurrence.PARCEL: _WHOLE,
    Occurrence.KEYS: _WHOLE,
    Occurrence.ROOM: _WHOLE,
}

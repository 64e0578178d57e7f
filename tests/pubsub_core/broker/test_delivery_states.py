"""The table of delivery states is whole, and holds lead through it."""

from __future__ import annotations

import pytest

from pubsub_core.broker.delivery_states import TABLE, Occurrence, State, Then
from pubsub_core.broker.holds import Holds

BY_TYPE = {Occurrence.PUBLISHED, Occurrence.RESUMED}


@pytest.mark.parametrize("occurrence", Occurrence)
def test_every_occurrence_leads_to_something_in_every_state(occurrence):
    assert TABLE[occurrence].keys() == set(State)
    assert TABLE[occurrence][State.OPEN] is Then.NOW
    assert TABLE[occurrence][State.ALL_HELD] is Then.LATER


def test_holds_lead_from_state_to_state_and_back():
    holds = Holds()
    seen = [holds.state]
    for change in (lambda: holds.hold(["t"]), holds.hold, lambda: holds.release(["t"]), holds.release):
        change()
        seen.append(holds.state)
    assert seen == [State.OPEN, State.SOME_HELD, State.ALL_HELD, State.ALL_HELD, State.OPEN]


@pytest.mark.parametrize("occurrence", Occurrence)
def test_while_some_types_are_held_only_what_concerns_one_of_them_waits(occurrence):
    holds = Holds()
    holds.hold(["t"])
    assert holds.permits(occurrence, ["u"])
    assert holds.permits(occurrence, ["t", "u"]) is (occurrence not in BY_TYPE)
    holds.hold()
    assert not holds.permits(occurrence, ["u"])
    holds.release()
    holds.release(["t"])
    assert holds.permits(occurrence, ["t"])

"""Care at home, event by event and attribute by attribute: two broker processes, on SQLite."""

from __future__ import annotations

import pytest

from authfabric.scenarios.homecare import CALM, EARLIER, EMERGENCY, OVER, play
from tests.pubsub_core.history.databases import databases, postgresql

__all__ = ["databases", "postgresql"]
STATES = {13: "Stable", 14: "Stable", 15: "Stable", 18: "Stable", 19: "Stable"}


def blurred(reading: dict[str, object]) -> dict[str, object]:
    return {**reading, "respiration": STATES[reading["respiration"]], "location": {"lat": 52.2, "lon": 0.1}}


@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
async def test_details_are_seen_in_an_emergency_and_those_of_two_hours_before(databases):
    calm, emergency, over = await play(databases())
    kept = [reading for _, reading in EARLIER]
    none = (None,) * len(kept)
    assert calm.published == (*kept, *CALM)
    assert calm.seen == {
        "own carer": (*none, blurred(CALM[0]), None),
        "ward": (*none, blurred(CALM[0]), blurred(CALM[1])),
    }
    assert emergency.seen == {
        "own carer": (None, None, kept[2], kept[3], None, CALM[0], None, EMERGENCY[0], None),
        "ward": (*none, None, None, EMERGENCY[0], blurred(EMERGENCY[1])),
    }
    assert over.seen == {
        "own carer": (*none, *(None,) * 4, blurred(OVER[0]), None),
        "ward": (*none, *(None,) * 4, blurred(OVER[0]), blurred(OVER[1])),
    }

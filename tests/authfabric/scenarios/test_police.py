"""The police scenario, attribute by attribute: three broker processes, in three accounts and in one secured one."""

from __future__ import annotations

import pytest

from authfabric.scenarios.police import LATER, SIGHTINGS, WANTED, play


def only(sighting: dict[str, object], *names: str) -> dict[str, object]:
    return {name: sighting[name] for name in names}


@pytest.mark.parametrize("accounts", [True, False], ids=["three accounts", "one secured account"])
async def test_each_sees_what_it_may_of_what_the_camera_saw(accounts):
    outcome, after = await play(accounts=accounts)
    true = [{**each, "location": "Victoria"} for each in SIGHTINGS]  # whatever the camera says
    assert outcome.seen == {
        "detective (met)": tuple(each if each["numberplate"] == WANTED else None for each in true),
        "billing (ccs)": tuple(only(each, "numberplate", "time") for each in true),
        "statistics (ccs)": tuple(only(each, "location", "time") for each in true),
    }
    sealed = "speed at met;" in outcome.note and "numberplate at ccs, met;" in outcome.note
    assert sealed is not accounts
    assert after.seen == {
        "detective (met)": (None, None),
        "billing (ccs)": tuple(only(each, "numberplate", "time") for each in LATER),
        "statistics (ccs)": tuple(only(each, "location", "time") for each in LATER),
    }

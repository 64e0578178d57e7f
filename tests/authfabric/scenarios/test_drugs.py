"""The drug audit, event by event and attribute by attribute: four broker processes, on PostgreSQL."""

from __future__ import annotations

import pytest

from authfabric.scenarios.drugs import AFTER, BEFORE, DURING, NURSE, play
from tests.pubsub_core.history.databases import databases, postgresql

__all__ = ["databases", "postgresql"]


def anonymous(case: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in case.items() if name != "patient_id"}


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
async def test_the_auditor_sees_patients_only_of_whoever_is_under_investigation(databases):
    before, during, after = await play(lambda name: databases())
    first = [case for cases in BEFORE.values() for case in cases]
    second, third = DURING["north"], AFTER["south"]
    controlled = [case if case["drug_id"] != "aspirin" else None for case in first]
    hers = [case if case and case["prescriber_id"] == NURSE else None for case in controlled]

    assert before.published == tuple(first)
    assert list(before.seen.values()) == [
        tuple(case and anonymous(case) for case in controlled),
        tuple(case and anonymous(case) for case in hers),
        (None,) * 5,
    ]
    assert "prescriber_id" in before.note or "refused" in before.note

    assert list(during.seen.values()) == [
        (*(None,) * 5, second[0], anonymous(second[1])),
        (*hers, second[0], None),
        (*(None,) * 5, second[0], None),
    ]
    assert list(after.seen.values()) == [
        (*(None,) * 7, anonymous(third[0])),
        (*(case and anonymous(case) for case in hers), anonymous(second[0]), None, anonymous(third[0])),
        (*(None,) * 5, anonymous(second[0]), None, None),
    ]

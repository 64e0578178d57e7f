"""The refresh schedule of figure 2: held off while the capabilities of whoever comes and goes cover the period."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.key_groups.rotation_schedule import Tenure, may_have, next_refresh

PERIOD = 100.0
STAYS = Tenure(0.0)

# The present key began at 1000 and would be followed by the next at 1100.
JOINING = [
    ("valid since long before the key began", Tenure(500.0, 5000.0), True),
    ("valid from the moment the key began", Tenure(1000.0, 5000.0), True),
    ("valid only since after the key began", Tenure(1000.1, 5000.0), False),
    ("valid without an end", Tenure(0.0), True),
]
REFRESH = [
    ("nobody comes or goes: the period", [STAYS], 1100.0),
    (
        "a member left, its capability outlasts the period: nothing is hastened",
        [STAYS, Tenure(0.0, 1500.0, True)],
        1100.0,
    ),
    (
        "a member left, its capability ends within the period: held off until then",
        [STAYS, Tenure(0.0, 1040.0, True)],
        1040.0,
    ),
    ("two left: the first end counts", [Tenure(0.0, 1060.0, True), Tenure(0.0, 1040.0, True)], 1040.0),
    ("a member stays, its capability ends within the period", [STAYS, Tenure(0.0, 1070.0)], 1070.0),
    ("a capability was taken back at once", [STAYS, Tenure(0.0, 1010.0, True)], 1010.0),
    ("a group without members", [], 1100.0),
]


@pytest.mark.parametrize(("case", "tenure", "given_key"), JOINING, ids=[case for case, *_ in JOINING])
def test_a_joining_member_may_have_the_key_if_its_capability_covers_it_from_the_start(
    case, tenure, given_key
):
    assert may_have(tenure, 1000.0) == given_key


@pytest.mark.parametrize(("case", "holders", "due"), REFRESH, ids=[case for case, *_ in REFRESH])
def test_a_refresh_is_due_when_a_holders_capability_ends_or_the_period_does(case, holders, due):
    assert next_refresh(1000.0, PERIOD, holders) == due


TENURES = st.builds(Tenure, st.floats(0, 2000), st.floats(0, 2000) | st.just(math.inf), st.booleans())


@given(st.floats(0, 1000), st.lists(TENURES))
def test_no_key_is_held_outside_a_capability(began, candidates):
    holders = [each for each in candidates if may_have(each, began) and each.end > began]
    due = next_refresh(began, PERIOD, holders)
    assert began < due <= began + PERIOD
    assert all(each.start <= began and due <= each.end for each in holders)


def test_whoever_left_gets_no_further_key_though_its_capability_lasts():
    assert Tenure(0.0, 5000.0).stays(1000.0)
    assert not Tenure(0.0, 5000.0, left=True).stays(1000.0)
    assert not Tenure(0.0, 1000.0).stays(1000.0)
    assert not Tenure(1000.5, 5000.0).stays(1000.0)

from __future__ import annotations

from math import exp

import pytest

from spark_eval.experiment.chain import Chain, chain_point, chain_points, nines

TENTH = Chain(mttf_hours=9.0, mttr_minutes=60.0, lease_seconds=0.0)
"""Everything is down for a tenth of the time."""


def test_one_of_each_needs_both():
    point = chain_point(TENTH, 1, 1)
    assert point.unanswered == pytest.approx(1 - 0.9 * 0.9)
    assert point.unrecycled == pytest.approx(0.1)


def test_three_servers_need_a_majority_for_the_store():
    """Two or three of three are down for 3 x 0.1^2 x 0.9 + 0.1^3 of the time."""
    point = chain_point(TENTH, 1, 3)
    assert point.unrecycled == pytest.approx(0.028)
    assert point.unanswered == pytest.approx(1 - 0.9 * 0.972)


def test_a_lease_bridges_the_beginning_of_each_outage():
    lease = Chain(mttf_hours=9.0, mttr_minutes=60.0, lease_seconds=1800.0)
    assert chain_point(lease, 1, 3).unrecycled == pytest.approx(0.028 * exp(-0.5))


def test_what_is_asked_needs_a_server_whatever_the_lease():
    lease = Chain(mttf_hours=9.0, mttr_minutes=60.0, lease_seconds=1e9)
    assert chain_point(lease, 1, 1).unanswered == pytest.approx(1 - 0.9 * 0.9)
    assert chain_point(lease, 1, 1).unrecycled == pytest.approx(0.0)


def test_failures_in_common_bound_what_replicas_achieve():
    alike = Chain(mttf_hours=9.0, mttr_minutes=60.0, lease_seconds=0.0, common=1.0)
    assert chain_point(alike, 5, 5).unanswered == pytest.approx(1 - 0.9 * 0.9)
    few, many = (chain_point(Chain(common=0.1), n, n).unanswered for n in (3, 5))
    assert many > 0.99 * few


def test_more_of_both_are_more_available():
    points = {(p.pdps, p.servers): p.unanswered for p in chain_points(Chain()) if p.common == 0}
    assert points[1, 1] > points[1, 3] > points[2, 3] > points[3, 5]


@pytest.mark.parametrize(
    ("unavailable", "expected"), [(0.1, 1), (0.01, 2), (0.0099, 2), (0.0101, 1), (1e-5, 5)]
)
def test_nines_are_counted(unavailable, expected):
    assert nines(unavailable) == expected

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.sampling import draw_grants, draw_sample

POPULATION = Population(requests=1_000, objects=100, subjects=7, roles=3)


def drawn(cell, runs=300, seed=1, block=0):
    return draw_sample(cell, POPULATION, seed, block, runs)


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one.__slots__)


def test_the_same_seed_cell_and_block_give_the_same_world():
    assert same(drawn(Cell(3)), drawn(Cell(3)))


@pytest.mark.parametrize("other", [{"seed": 2}, {"block": 1}])
def test_another_seed_or_block_gives_another_world(other):
    assert not same(drawn(Cell(3)), drawn(Cell(3), **other))


def test_how_pdps_are_asked_changes_nothing_in_the_world():
    assert same(drawn(Cell(3)), drawn(Cell(3, strategy="queue", cache="roles")))


@pytest.mark.parametrize(("mttf", "mttr"), [(100, 10), (25, 40), (3, 1)])
def test_pdps_are_down_as_often_as_said_at_every_request(mttf, mttr):
    """The first request included: a start with all PDPs up, or times rounded up, would show here."""
    cell = Cell(40, mttf=mttf, mttr=mttr)
    down = 1 - drawn(cell).up.mean(axis=(0, 1))  # 12,000 independent observations of each request
    error = np.sqrt(cell.unavailability * (1 - cell.unavailability) / 12_000)
    assert np.abs(down - cell.unavailability).max() < 5 * error
    assert down.mean() == pytest.approx(cell.unavailability, rel=0.02)


def test_failures_last_as_long_as_said():
    up = drawn(Cell(40, mttf=100, mttr=10)).up.reshape(-1, 1_000)
    failures = (~up[:, 1:] & up[:, :-1]).sum()
    # A failure is seen if it holds a whole request: its mean time is then exponential(10) over requests.
    assert (~up).sum() / failures == pytest.approx(1 / (1 - np.exp(-1 / 10)), rel=0.02)


def test_pdps_fail_independently_of_each_other():
    down = (~drawn(Cell(30)).up).sum(axis=1)
    pairs = (down * (down - 1)).mean() / (30 * 29)
    assert pairs == pytest.approx(Cell(30).unavailability ** 2, rel=0.05)


def test_a_common_cause_strikes_all_at_once_and_leaves_each_as_reliable_as_before():
    up = drawn(Cell(5, common=1.0), runs=600).up
    assert (up == up[:, :1]).all()
    assert 1 - up.mean() == pytest.approx(Cell().unavailability, rel=0.05)
    partly = drawn(Cell(5, common=0.3), runs=600).up
    assert 1 - partly.mean() == pytest.approx(Cell().unavailability, rel=0.05)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100), st.integers(1, 8))
def test_object_spaces_overlap_by_exactly_the_rate(shared, pdps):
    serves = drawn(Cell(pdps, overlap=shared / 100), runs=2).serves
    assert serves[:, 0].all()
    assert (serves[:, 1:].sum(axis=2) == shared).all()


def test_requests_stay_within_the_population():
    sample = drawn(Cell(1))
    assert set(np.unique(sample.subjects)) == set(range(7))
    assert set(np.unique(sample.objects)) == set(range(100))


def test_grants_depend_on_the_seed_alone():
    assert np.array_equal(draw_grants(POPULATION, 1), draw_grants(POPULATION, 1))
    assert draw_grants(POPULATION, 1).shape == (3, 100)

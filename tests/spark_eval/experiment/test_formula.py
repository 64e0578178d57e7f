from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pep.asking.strategy import Strategy
from spark_eval.experiment.cell import Cache, Cell, Counted, Population, Spaces
from spark_eval.experiment.formula import decrease, failing, spread_of_spaces
from spark_eval.experiment.outcome import publish_subscribe
from spark_eval.experiment.sampling import draw_sample

POPULATION = Population()


@pytest.mark.parametrize(
    ("pdps", "overlap", "fewer"),
    [
        (2, 0.1, 0.091), (4, 0.1, 0.249), (10, 0.1, 0.576),
        (4, 0.25, 0.539), (4, 0.5, 0.838), (4, 0.75, 0.968), (4, 1.0, 0.999),
    ],
)  # fmt: skip
def test_the_papers_cells_have_their_known_values(pdps, overlap, fewer):
    assert decrease(Cell(pdps, overlap), POPULATION) == pytest.approx(fewer, abs=0.0005)


cells = st.builds(
    Cell,
    pdps=st.integers(1, 64),
    overlap=st.floats(0, 1),
    mttf=st.floats(1, 1000),
    mttr=st.floats(1, 1000),
)


@given(cells)
def test_flooding_has_the_closed_form(cell):
    u = cell.unavailability
    assert failing(cell, POPULATION) == pytest.approx(u * (1 - cell.overlap * (1 - u)) ** (cell.pdps - 1))


@given(cells, st.floats(0, 1), st.sampled_from(Strategy), st.sampled_from(Cache))
def test_publish_subscribe_is_never_worse_than_point_to_point(cell, common, strategy, cache):
    cell = Cell(cell.pdps, cell.overlap, cell.mttf, cell.mttr, common, strategy, cache)
    assert 0 <= failing(cell, POPULATION) <= cell.unavailability * (1 + 1e-9)


@given(cells)
def test_asking_all_is_never_worse_than_asking_one_at_a_time(cell):
    queue = Cell(cell.pdps, cell.overlap, cell.mttf, cell.mttr, strategy=Strategy.QUEUE)
    assert failing(cell, POPULATION) <= failing(queue, POPULATION) * (1 + 1e-9)


@given(cells)
def test_wider_recycling_helps_more(cell):
    none, precise, roles = (
        failing(Cell(cell.pdps, cell.overlap, cell.mttf, cell.mttr, cache=cache), POPULATION)
        for cache in Cache
    )
    assert roles <= precise * (1 + 1e-9)
    assert precise <= none * (1 + 1e-9)


def test_a_common_cause_alone_makes_more_pdps_useless():
    cell = Cell(64, 1.0, common=1.0)
    assert failing(cell, POPULATION) == pytest.approx(cell.unavailability)


def test_a_single_pdp_fails_as_point_to_point_does():
    assert decrease(Cell(1), POPULATION) == pytest.approx(0)


def test_both_readings_of_a_time_to_failure_give_their_unavailability():
    assert Cell().unavailability == pytest.approx(0.0909, abs=5e-5)
    assert Cell(counted=Counted.FROM_FAILURE).unavailability == pytest.approx(0.1)


@pytest.mark.parametrize("pdps", [1, 2, 10])
def test_with_one_common_core_nothing_but_the_core_gains(pdps):
    """Of the other objects as many fail as point to point."""
    cell = Cell(pdps, 0.1, spaces=Spaces.CORE)
    u = cell.unavailability
    assert failing(cell, POPULATION) == pytest.approx(0.9 * u + 0.1 * u**pdps)


@pytest.mark.parametrize("counted", Counted)
@pytest.mark.parametrize("spaces", Spaces)
def test_the_simulation_agrees_with_the_formula_by_every_reading(counted, spaces):
    cell = Cell(4, 0.5, counted=counted, spaces=spaces)
    population = Population(requests=2_000, objects=20)
    sample = draw_sample(cell, population, 5, 0, 100)
    failed = 1 - publish_subscribe(sample, cell, population).answered.mean()
    assert failed == pytest.approx(failing(cell, population), rel=0.12)


@pytest.mark.parametrize(("pdps", "overlap"), [(10, 0.1), (4, 0.5), (3, 0.25), (64, 0.1)])
@pytest.mark.parametrize("common", [0.0, 0.2])
def test_the_spread_of_spaces_is_that_of_runs_that_draw_them(pdps, overlap, common):
    """Of what would fail with these spaces if a run lasted for ever."""
    cell = Cell(pdps, overlap, common=common)
    drawn = draw_sample(cell, Population(requests=1), 5, 0, 1_500).serves[:, 1:].sum(axis=1)
    failing = cell.common_unavailability + (1 - cell.common_unavailability) * (
        cell.own_unavailability ** (drawn + 1)
    ).mean(axis=1)
    fewer = 1 - failing / cell.unavailability
    assert fewer.mean() == pytest.approx(decrease(cell, POPULATION), abs=0.002)
    assert spread_of_spaces(cell, POPULATION) == pytest.approx(fewer.std(), rel=0.08)


@pytest.mark.parametrize("cell", [Cell(1), Cell(2, 0.3), Cell(4, 1.0), Cell(8, 0.1, spaces=Spaces.CORE)])
def test_spaces_that_are_the_same_to_all_requests_have_no_spread(cell):
    """Nobody else, one other, everything, or one core of a given size: as many objects have each number of PDPs."""
    assert spread_of_spaces(cell, POPULATION) == pytest.approx(0, abs=1e-6)

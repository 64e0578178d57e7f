from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pep.asking.hedging import Strategy
from spark_eval.experiment.cell import Cache, Cell, Population
from spark_eval.experiment.formula import decrease, failing

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

from __future__ import annotations

import msgspec
import pytest

from pep.asking.strategy import Strategy
from spark_eval.experiment.aggregate import availability
from spark_eval.experiment.cell import Cache, Cell, Population
from spark_eval.experiment.formula import decrease
from spark_eval.experiment.plan import Availability, Sweep
from spark_eval.experiment.simulation import simulate, tasks

PLAN = Availability(
    population=Population(requests=2_000),
    simulated_runs=120,
    block=40,
    sweeps={
        "pdps": Sweep(pdps=(1, 2, 4, 10), overlap=(0.1,)),
        "overlap": Sweep(overlap=(0.1, 0.25, 0.5, 0.75, 1.0)),
        "common": Sweep(pdps=(2, 8), overlap=(1.0,), common=(0.05, 0.5)),
        "strategy": Sweep(pdps=(2, 8), overlap=(0.5,), strategy=tuple(Strategy)),
        "cache": Sweep(pdps=(1, 4), cache=tuple(Cache)),
        "repair": Sweep(overlap=(0.5,), mttf=(25.0, 400.0), mttr=(5.0, 40.0)),
    },
)


def trace(spark, partitions, plan=PLAN, seed=5):
    table = simulate(spark, tasks(plan, seed), partitions).toArrow()
    keys = [(name, "ascending") for name in (*Cell.__struct_fields__, "run", "variant")]
    return table.sort_by(keys)


@pytest.fixture(scope="module")
def simulated(spark):
    return trace(spark, 3)


def test_the_simulation_agrees_with_the_formula_at_every_point(spark, simulated):
    """The intervals are simultaneous: with 95 % they hold the formula's values all together."""
    points = PLAN.cells()
    rows = availability(spark.createDataFrame(simulated), len(points)).collect()
    assert len(rows) == len(points)
    for row in rows:
        cell = msgspec.convert({name: row[name] for name in Cell.__struct_fields__}, Cell)
        expected = decrease(cell, PLAN.population)
        assert abs(row.decrease - expected) <= row.margin, (
            f"{cell}: {row.decrease} ± {row.margin}, not {expected}"
        )
        assert row.margin < 0.08, f"{cell}: an interval that holds everything says nothing"
        assert abs(row.failing_p2p - cell.unavailability) < 0.2 * cell.unavailability


def test_the_result_is_the_same_for_any_partitioning(spark, simulated):
    assert trace(spark, 1) == simulated


def test_the_result_is_the_same_whatever_else_is_simulated(spark, simulated):
    alone = Availability(
        population=PLAN.population,
        simulated_runs=120,
        block=40,
        sweeps={"x": Sweep(pdps=(10,), overlap=(0.1,))},
    )
    frame = spark.createDataFrame(simulated).where("pdps = 10 and overlap = 0.1").orderBy("run", "variant")
    assert trace(spark, 2, alone) == frame.toArrow()


def test_another_seed_gives_another_result(spark, simulated):
    assert trace(spark, 3, seed=6) != simulated


def test_every_run_of_every_cell_is_there_once_each_way(simulated):
    assert simulated.num_rows == len(PLAN.cells()) * PLAN.simulated_runs * 2
    keys = [*Cell.__struct_fields__, "run", "variant"]
    assert simulated.group_by(keys).aggregate([]).num_rows == simulated.num_rows
    assert set(simulated.column("requests").to_pylist()) == {PLAN.population.requests}


def test_the_last_block_may_be_shorter():
    plan = Availability(simulated_runs=5, block=2, sweeps={"x": Sweep()})
    assert [(task.first_run, task.runs) for task in tasks(plan, 1)] == [(0, 2), (2, 2), (4, 1)]

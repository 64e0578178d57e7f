from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from spark_eval.experiment.plan import Part, dump, load, parse
from spark_eval.experiment.points import Result
from spark_eval.jobs import experiment
from spark_eval.jobs.experiment import PLAN, REPORT, RESULT, TRACES, ExperimentJob, run_experiment
from spark_eval.runtime.file_store import OutputExists
from spark_eval.runtime.progress import Steps
from spark_eval.runtime.session import SparkOptions
from spark_eval.schemas import TRACE
from tests.documents import run_examples

SMALL = parse(
    """
seed: 7
availability:
  population: {requests: 200, objects: 10, deadline: 5.0}
  simulated_runs: 40
  block: 20
  live_runs: 1
  sweeps:
    pdps: {live: true, pdps: [1, 2], overlap: [0.5], mttf: [20], mttr: [10]}
    strategy: {pdps: [2, 4], overlap: [0.5], strategy: [flood, queue]}
response_time: {}
"""
)
AVAILABILITY = frozenset([Part.AVAILABILITY])


def order(out, plan=SMALL):
    return ExperimentJob(plan, AVAILABILITY, out, "authfabric experiment availability", SparkOptions())


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "experiment"
    return run_experiment(order(out), Steps(None)), out


def test_the_output_is_whole(finished):
    result, out = finished
    assert {path.name for path in out.iterdir()} == {PLAN, TRACES, RESULT, REPORT}
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert load(out / PLAN) == SMALL
    assert msgspec.json.decode((out / RESULT).read_bytes(), type=Result) == result
    assert (out / REPORT).read_text().startswith("<!doctype html>")


def test_both_traces_have_one_schema_and_read_as_one_table(finished):
    trace = pq.read_table(finished[1] / TRACES)
    assert trace.schema.equals(TRACE)
    assert set(trace.column("source").to_pylist()) == {"live", "simulation"}
    assert trace.num_rows == 2 * 2 * 200 + 6 * 40 * 2


def test_simulation_and_live_run_agree_with_the_formula_at_every_point(finished):
    """The intervals hold the formula's values all together with 95 % (Bonferroni: each single one with 99.4 %)."""
    result, _ = finished
    assert len(result.availability) == 6 + 2
    assert result.differing == []
    assert all(point.margin < 0.12 for point in result.availability if point.source == "simulation")
    assert (result.twins.runs, result.twins.alike) == (4, 4)


def test_the_plan_that_is_left_repeats_the_simulation_to_the_last_byte(finished, tmp_path, monkeypatch):
    result, out = finished
    again = msgspec.structs.replace(
        load(out / PLAN), availability=msgspec.structs.replace(SMALL.availability, live_runs=0)
    )
    monkeypatch.setattr(experiment, "PARTITIONS", 3)
    repeated = run_experiment(order(tmp_path / "again", again), Steps(None))
    first, second = (folder / TRACES / "simulation.parquet" for folder in (out, tmp_path / "again"))
    assert first.read_bytes() == second.read_bytes()
    by_cell = {point.cell: point.decrease for point in result.availability if point.source == "simulation"}
    assert {point.cell: point.decrease for point in repeated.availability} == by_cell


def test_an_experiment_that_breaks_leaves_nothing(spark, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("in the middle")

    monkeypatch.setattr(experiment, "_measure", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        run_experiment(order(tmp_path / "out"), Steps(None))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_else_is_refused_before_anything_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "_measure", lambda *_: pytest.fail("nothing must be run"))
    (tmp_path / "photo").touch()
    with pytest.raises(OutputExists):
        run_experiment(order(tmp_path), Steps(None))


def test_the_plan_is_written_as_it_can_be_read():
    assert parse(dump(SMALL)) == SMALL


def test_what_the_page_shows_is_what_happens(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(Path(__file__).parents[3] / "docs/experiments.md", tmp_path) == 1
    assert (tmp_path / "rack" / REPORT).is_file()

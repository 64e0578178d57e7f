from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from authfabric.chaos import whole_fabric
from authfabric.cli import app
from authfabric.commands.scale.experiment_fabric import shipped_fabric
from spark_eval.experiment import variants
from spark_eval.experiment.plan import Part, dump, load, parse
from spark_eval.experiment.points import Result
from spark_eval.jobs import experiment
from spark_eval.jobs.experiment import (
    PLAN,
    REPORT,
    RESULT,
    TRACES,
    ExperimentJob,
    compare_experiments,
    run_experiment,
)
from spark_eval.measurement.live_service import live_measurements
from spark_eval.measurement.response_service import count_requests, draw_requests, response_measurements
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
response_time:
  requests: 100
  windows: 5
  subscriptions: [5, 20]
  pdps: [1, 2]
  recycling: {requests: 300, objects: 10, subjects: 20, roles: 3}
  hospital: 20
recovery: {times: 0}
"""
)
AVAILABILITY = frozenset([Part.AVAILABILITY])


def order(out, plan=SMALL, parts=AVAILABILITY):
    return ExperimentJob(
        plan, parts, out, "authfabric experiment", SparkOptions(), shipped_fabric, whole_fabric
    )


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory):
    """`authfabric experiment all`, on a plan so small that it takes seconds; strikes have a module of their own."""
    plan = tmp_path_factory.mktemp("plan") / PLAN
    plan.write_text(dump(SMALL))
    out = tmp_path_factory.mktemp("out") / "experiment"
    done = CliRunner().invoke(app, ["experiment", "all", "--plan", str(plan), "--out", str(out)])
    assert done.exit_code == 0, done.output
    return msgspec.json.decode((out / RESULT).read_bytes(), type=Result), out, done.stderr


def test_the_output_is_whole(finished):
    _, out, _ = finished
    assert {path.name for path in out.iterdir()} == {PLAN, TRACES, RESULT, REPORT}
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert load(out / PLAN) == SMALL
    assert (out / REPORT).read_text().startswith("<!doctype html>")


def test_the_steps_are_counted_and_named_also_where_there_is_no_terminal(finished):
    said = finished[2]
    for words in (
        "1/6 starting Spark",
        "2/6 asking failing PDPs",
        "3/6 measuring",
        "4/6 simulating",
        "5/6",
        "6/6",
    ):
        assert words in said


def test_the_machine_and_its_load_are_named(finished):
    machine = finished[0].machine
    assert machine.cores > 0
    assert set(machine.load) == {"asking failing PDPs", "measuring response times", "simulating"}


def rows(finished, figure, variant):
    trace = pq.read_table(finished[1] / TRACES / "live.parquet").to_pylist()
    return [row for row in trace if (row["figure"], row["variant"]) == (figure, variant)]


def test_every_variant_is_asked_every_request_and_answered(finished):
    trace = pq.read_table(finished[1] / TRACES / "live.parquet").to_pylist()
    timed = [row for row in trace if row["figure"]]
    assert len(timed) == count_requests(SMALL.response_time)
    assert all(row["seconds"] is not None and row["failed"] == 0 for row in timed)
    found = {(row["figure"], row["variant"]) for row in timed}
    assert found >= {
        ("subscriptions", "5 objects"), ("subscriptions", f"20 objects, {variants.CONTENT}"),
        ("unsubscribing", variants.ONE_INBOX), ("unsubscribing", f"{variants.KEEPS}, {variants.CONTENT}"),
        ("recycling", variants.SAAM), ("pdps", "1 PDP"), ("pdps", f"2 PDPs, {variants.HEDGED}"),
        ("transport", variants.DIRECT), ("transport", variants.DIRECT_REPLY), ("transport", variants.SECURED),
    }  # fmt: skip
    for figure, variant in found:
        numbers = [row["request"] for row in rows(finished, figure, variant)]
        assert numbers == list(range(300 if figure == variants.RECYCLING else 100))


def test_what_is_recycled_as_shipped_is_what_was_asked_before_or_follows_by_role(finished):
    """Each subject has one role, so that SAAM-RBAC knows at least what the role has asked before."""
    requests = draw_requests(SMALL.response_time.recycling, SMALL.seed, variants.RECYCLING)
    precise = [row["recycled"] for row in rows(finished, variants.RECYCLING, variants.PRECISE)]
    by_role = [row["recycled"] for row in rows(finished, variants.RECYCLING, variants.SAAM)]
    seen = set()
    for request, known, inferred in zip(requests, precise, by_role, strict=True):
        question = (request.subject.id, request.object.id)
        assert known == (question in seen)
        assert inferred >= known
        seen.add(question)
    assert sum(by_role) > sum(precise) > 0
    assert {row["recycled"] for row in rows(finished, variants.RECYCLING, variants.NOTHING)} == {0}


def test_two_runs_are_compared(finished, tmp_path):
    result, out, _ = finished
    other = tmp_path / "other"
    shutil.copytree(out, other)
    slower = msgspec.structs.replace(
        result,
        availability=[msgspec.structs.replace(p, decrease=p.decrease - 0.5) for p in result.availability],
        response_time=[msgspec.structs.replace(s, median=2 * s.median) for s in result.response_time[1:]],
    )
    (other / RESULT).write_bytes(msgspec.json.encode(slower))
    same, changed = compare_experiments(out, out), compare_experiments(out, other)
    assert (same.plan, same.changed_points, same.changed_times) == ([], [], [])
    assert len(changed.changed_times) == len(changed.times) == len(result.response_time) - 1
    assert {each.source for each in changed.changed_points} >= {"simulation"}
    assert len(changed.only_before) == 1
    assert changed.only_after == []


def test_both_traces_have_one_schema_and_read_as_one_table(finished):
    trace = pq.read_table(finished[1] / TRACES)
    assert trace.schema.equals(TRACE)
    assert set(trace.column("source").to_pylist()) == {"live", "simulation"}
    assert trace.num_rows == 2 * 2 * 200 + 6 * 40 * 2 + count_requests(SMALL.response_time)


def test_times_are_kept_to_an_eighth_of_a_microsecond(finished):
    """So that the traces of a whole run fit into a repository."""
    trace = pq.read_table(finished[1] / TRACES / "live.parquet")
    for name in ("at", "seconds"):
        found = [value for value in trace.column(name).to_pylist() if value is not None]
        assert found
        assert all((value * 2**23).is_integer() for value in found)
    column = (
        pq.ParquetFile(finished[1] / TRACES / "live.parquet")
        .metadata.row_group(0)
        .column(TRACE.names.index("seconds"))
    )
    assert "BYTE_STREAM_SPLIT" in column.encodings


def test_simulation_and_live_run_agree_with_the_formula_at_every_point(finished):
    """The intervals hold the formula's values all together with 95 % (Bonferroni: each single one with 99.4 %)."""
    result = finished[0]
    assert len(result.availability) == 6 + 2
    assert result.differing == []
    assert all(point.margin < 0.12 for point in result.availability if point.source == "simulation")
    assert (result.twins.runs, result.twins.alike) == (4, 4)


def test_the_plan_that_is_left_repeats_the_simulation_to_the_last_byte(finished, tmp_path, monkeypatch):
    result, out, _ = finished
    again = msgspec.structs.replace(
        load(out / PLAN), availability=msgspec.structs.replace(SMALL.availability, live_runs=0)
    )
    monkeypatch.setattr(experiment, "PARTITIONS", 3)
    repeated = run_experiment(order(tmp_path / "again", again), Steps(None))
    first, second = (folder / TRACES / "simulation.parquet" for folder in (out, tmp_path / "again"))
    assert first.read_bytes() == second.read_bytes()
    by_cell = {point.cell: point.decrease for point in result.availability if point.source == "simulation"}
    assert {point.cell: point.decrease for point in repeated.availability} == by_cell


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_an_experiment_that_is_ended_keeps_aside_what_was_measured(spark, tmp_path, monkeypatch, error):
    def broken(job, steps, measured):
        measured.parts.append(TRACE.empty_table())
        raise error("in the middle")

    monkeypatch.setattr(experiment, "_measure", broken)
    for _ in range(2):  # the second takes the place of the first
        with pytest.raises(error, match="in the middle"):
            run_experiment(order(tmp_path / "out"), Steps(None))
    assert [path.name for path in tmp_path.iterdir()] == ["out-unfinished"]
    assert load(tmp_path / "out-unfinished" / PLAN) == SMALL


def test_an_experiment_that_is_ended_before_it_measures_leaves_nothing(spark, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("in the middle")

    monkeypatch.setattr(experiment, "_measure", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        run_experiment(order(tmp_path / "out"), Steps(None))
    assert list(tmp_path.iterdir()) == []


def failing(measurement, times):
    """The same, which fails at first."""
    left = [RuntimeError("the server is gone")] * times

    async def run(advance):
        advance(1)
        if left:
            raise left.pop()
        return await measurement.run(advance)

    return dataclasses.replace(measurement, run=run)


@pytest.mark.parametrize("times", [1, 2])
def test_what_fails_is_tried_once_more_and_then_left_out_without_the_others(
    spark, tmp_path, monkeypatch, times
):
    """A figure of the response times fails; availability and the other figures are reported."""

    def measurements(plan, shipped):
        for each in response_measurements(plan, shipped):
            if each.name.endswith((variants.PDPS, variants.UNSUBSCRIBING)):
                yield failing(each, times) if each.name.endswith(variants.UNSUBSCRIBING) else each

    monkeypatch.setattr(experiment, "response_measurements", measurements)
    plan, out = tmp_path / PLAN, tmp_path / "out"
    simulated = msgspec.structs.replace(SMALL.availability, live_runs=0)
    plan.write_text(dump(msgspec.structs.replace(SMALL, availability=simulated)))
    done = CliRunner().invoke(app, ["experiment", "all", "--plan", str(plan), "--out", str(out)])
    assert (out / RESULT).is_file(), done.output
    result = msgspec.json.decode((out / RESULT).read_bytes(), type=Result)
    name = f"response times, {variants.UNSUBSCRIBING}"
    told = f"{name} failed: RuntimeError: the server is gone; once more" in done.stderr
    figures = {each.figure for each in result.response_time}
    assert told
    assert result.availability
    if times == 1:
        assert (done.exit_code, result.failures) == (0, {})
        assert figures == {variants.PDPS, variants.UNSUBSCRIBING}
        return
    assert done.exit_code == 3
    assert figures == {variants.PDPS}
    assert result.failures == {name: "RuntimeError: the server is gone"}
    assert f"could not be measured: {name}: RuntimeError: the server is gone" in done.stdout
    report = (out / REPORT).read_text()
    assert "What could not be measured" in report
    assert "Response time against the number of PDPs" in report


def test_an_experiment_of_which_nothing_can_be_measured_says_why(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(
        experiment,
        "live_measurements",
        lambda *words: (failing(each, 2) for each in live_measurements(*words)),
    )
    with pytest.raises(RuntimeError, match="the server is gone"):
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

from __future__ import annotations

import statistics

import pyarrow as pa
import pytest

from spark_eval.experiment.aggregate import (
    availability,
    response_summary,
    response_times,
    student_t,
    twins,
)
from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.formula import spread_of_spaces
from spark_eval.experiment.points import availability_points
from spark_eval.schemas import TRACE

ROW = {
    "source": "live", "figure": "", "variant": "pubsub", "pdps": 2, "overlap": 0.1, "mttf": 100.0, "mttr": 0.001,
    "common": 0.0, "strategy": "flood", "cache": "none", "counted": "from-repair", "spaces": "independent",
    "run": 0, "batch": 0, "request": 0, "requests": 10, "failed": 0,
    "recycled": 0, "asked": None, "at": None, "seconds": None,
}  # fmt: skip


def frame(spark, rows):
    return spark.createDataFrame(pa.Table.from_pylist([{**ROW, **row} for row in rows], schema=TRACE))


def pairs(spark, failures, **fields):
    return frame(
        spark,
        [
            {"variant": variant, "failed": failed, "run": run, **fields}
            for run, both in enumerate(failures)
            for variant, failed in zip(("p2p", "pubsub"), both, strict=True)
        ],
    )


def test_the_decrease_is_that_of_all_failures_together(spark):
    row = availability(pairs(spark, [(4, 2), (0, 0), (6, 1)])).first()
    assert row.decrease == pytest.approx(0.7)
    assert (row.failing, row.failing_p2p) == (pytest.approx(0.1), pytest.approx(1 / 3))
    assert (row.observations, row.requests) == (3, 30)


def test_the_interval_is_the_delta_methods(spark):
    theirs, ours = [4, 0, 6, 3, 5, 2, 7, 1], [2, 0, 1, 1, 3, 0, 2, 1]
    row = availability(pairs(spark, zip(theirs, ours, strict=True))).first()
    ratio = sum(ours) / sum(theirs)
    residuals = [mine - ratio * other for mine, other in zip(ours, theirs, strict=True)]
    error = statistics.stdev(residuals) / 8**0.5 / statistics.mean(theirs)
    assert row.margin == pytest.approx(2.3646 * error, rel=1e-3)  # t with 7 degrees of freedom


def test_without_any_failure_seen_the_interval_still_has_a_width(spark):
    row = availability(pairs(spark, [(50, 0)] * 20, mttr=10.0)).first()
    assert row.decrease == 1
    assert 0.02 < row.margin < 0.06


def test_where_nothing_failed_point_to_point_nothing_is_said(spark):
    row = availability(pairs(spark, [(0, 0)] * 3)).first()
    assert (row.failing_p2p, row.decrease, row.margin) == (0, 0, 1)


def test_intervals_for_more_points_at_once_are_wider(spark):
    """Each of eight points has an interval of 99.4 %: for 19 degrees of freedom 3.06 deviations instead of 2.09."""
    trace = pairs(spark, [(50 + run % 5, 20 + run % 7) for run in range(20)], mttr=1.0)
    alone, together = (availability(trace, points).first().margin for points in (1, 8))
    assert together / alone == pytest.approx(3.06 / 2.09, rel=0.02)


def test_where_many_failures_were_seen_their_variance_alone_makes_the_interval(spark):
    row = availability(pairs(spark, [(50, 50)] * 20, mttr=10.0)).first()
    assert row.decrease == 0
    assert 0 < row.margin < 1e-6


def test_one_row_for_each_request_and_one_for_each_run_give_the_same(spark):
    runs = pairs(spark, [(2, 1), (0, 0), (3, 2)])
    single = [
        {"variant": variant, "run": run, "request": number, "requests": 1, "failed": int(number < failed)}
        for run, both in enumerate([(2, 1), (0, 0), (3, 2)])
        for variant, failed in zip(("p2p", "pubsub"), both, strict=True)
        for number in range(10)
    ]
    assert availability(frame(spark, single)).first() == availability(runs).first()


def test_cells_and_sources_are_kept_apart(spark):
    both = pairs(spark, [(2, 1), (3, 1)]).union(pairs(spark, [(2, 0), (3, 0)], source="simulation", pdps=4))
    assert {(r.source, r.pdps, r.decrease) for r in availability(both).collect()} == {
        ("live", 2, 0.6),
        ("simulation", 4, 1.0),
    }


def test_live_runs_are_compared_with_the_simulated_run_of_the_same_number(spark):
    live = pairs(spark, [(2, 1), (3, 1)])
    simulated = pairs(spark, [(2, 1), (3, 2), (9, 9)], source="simulation")
    other = pairs(spark, [(2, 1)], source="simulation", pdps=7)
    for source in ("live", "simulation"):
        other = other.union(pairs(spark, [(2, 1)], source=source, strategy="queue"))
    rows = twins(live.union(simulated).union(other)).collect()
    assert sorted(row.alike for row in rows) == [False, True, True, True]
    assert {row.requests for row in rows} == {10}


@pytest.mark.parametrize(
    ("freedom", "points", "quantile"), [(9, 1, 2.2622), (199, 1, 1.9720), (9, 10, 3.6897), (30, 5, 2.7500)]
)
def test_the_quantile_of_student_is_that_of_the_tables(spark, freedom, points, quantile):
    from pyspark.sql import functions as f

    value = spark.range(1).select(student_t(points, f.lit(freedom)).alias("t")).first().t
    assert value == pytest.approx(quantile, rel=2e-3)


def timed(count, **fields):
    return [
        {"figure": "a", "variant": "x", "request": n, "requests": 1, "seconds": float(n), **fields}
        for n in range(count)
    ]


def test_response_times_are_medians_of_consecutive_requests(spark):
    """The interval holds the 40th to the 61st of 100 values: with 95 % probability the true median is between them."""
    windows = response_times(frame(spark, timed(200)), windows=2).orderBy("request").collect()
    assert [(w.request, w.median, w.low, w.high) for w in windows] == [
        (100, 49.5, 39, 60),
        (200, 149.5, 139, 160),
    ]


def test_figures_with_more_requests_have_as_many_windows(spark):
    both = frame(spark, [*timed(40), *timed(80, figure="b")])
    rows = response_times(both, windows=4).collect()
    assert {(r.figure, r.request) for r in rows} == {
        *(("a", n) for n in (10, 20, 30, 40)),
        *(("b", n) for n in (20, 40, 60, 80)),
    }


def test_few_values_have_the_widest_interval_there_is(spark):
    (row,) = response_times(frame(spark, timed(3)), windows=1).collect()
    assert (row.low, row.median, row.high) == (0, 1, 2)


def test_the_summary_counts_what_failed_and_what_was_recycled(spark):
    rows = [
        {"figure": "a", "variant": "x", "request": n, "requests": 1, "recycled": n % 2, "seconds": 1.0}
        for n in range(10)
    ]
    row = response_summary(frame(spark, rows)).first()
    assert (row.requests, row.failed, row.recycled, row.median) == (10, 0, 0.5, 1.0)


def test_a_live_point_is_as_uncertain_as_its_one_draw_of_object_spaces(spark):
    """All batches of a live run have it in common; each simulated run has its own."""
    failures = [(40, 20), (50, 26), (44, 21), (47, 25)]
    fields = {"pdps": 10, "mttr": 10.0, "requests": 500}
    rows = [
        availability(pairs(spark, failures, source=source, **fields)).first()
        for source in ("live", "simulation")
    ]
    live, simulated = availability_points(rows, Population(requests=2_000))
    spread = spread_of_spaces(Cell(10), Population())
    assert simulated.margin == rows[1].margin
    assert live.margin**2 == pytest.approx(rows[0].margin ** 2 + (2.2414 * spread) ** 2, rel=1e-3)
    longer, _ = availability_points(rows, Population(requests=1_000))  # then it was two runs
    assert longer.margin**2 == pytest.approx(rows[0].margin ** 2 + (2.2414 * spread) ** 2 / 2, rel=1e-3)

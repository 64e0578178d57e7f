from __future__ import annotations

import statistics

import pyarrow as pa
import pytest

from spark_eval.experiment.aggregate import (
    availability,
    median_ranks,
    response_summary,
    response_times,
    student_t,
)
from spark_eval.schemas import TRACE

ROW = {
    "source": "live", "figure": "", "variant": "pubsub", "pdps": 2, "overlap": 0.1, "mttf": 100.0, "mttr": 0.001,
    "common": 0.0, "strategy": "flood", "cache": "none", "run": 0, "batch": 0, "request": 0, "requests": 10,
    "failed": 0, "recycled": 0, "asked": None, "seconds": None,
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


@pytest.mark.parametrize(
    ("freedom", "points", "quantile"), [(9, 1, 2.2622), (199, 1, 1.9720), (9, 10, 3.6897), (30, 5, 2.7500)]
)
def test_the_quantile_of_student_is_that_of_the_tables(spark, freedom, points, quantile):
    from pyspark.sql import functions as f

    value = spark.range(1).select(student_t(points, f.lit(freedom)).alias("t")).first().t
    assert value == pytest.approx(quantile, rel=2e-3)


def test_response_times_are_medians_of_consecutive_requests(spark):
    rows = [
        {"figure": "a", "variant": "x", "request": n, "requests": 1, "seconds": float(n)} for n in range(200)
    ]
    windows = response_times(frame(spark, rows), window=100).orderBy("request").collect()
    assert [(w.request, w.median) for w in windows] == [(100, 49.5), (200, 149.5)]
    assert windows[0].low < 49.5 < windows[0].high


def test_the_interval_of_a_median_covers_about_the_middle_ranks():
    low, high = median_ranks(100)
    assert (low, high) == (pytest.approx(0.402, abs=0.001), pytest.approx(0.598, abs=0.001))


def test_the_summary_counts_what_failed_and_what_was_recycled(spark):
    rows = [
        {"figure": "a", "variant": "x", "request": n, "requests": 1, "recycled": n % 2, "seconds": 1.0}
        for n in range(10)
    ]
    row = response_summary(frame(spark, rows)).first()
    assert (row.requests, row.failed, row.recycled, row.median) == (10, 0, 0.5, 1.0)

"""What a failure cost, computed from traces that were made up for the purpose."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eval.experiment.plan import Part, load, shipped
from spark_eval.experiment.points import Result
from spark_eval.experiment.recovery import (
    ALL_PDPS,
    ALL_SERVERS,
    FIGURE,
    ONE_SERVER,
    Recovery,
    recovery_curves,
    recovery_points,
)
from spark_eval.experiment.report.experiment_report import make_report
from spark_eval.experiment.variants import CERTIFICATES
from spark_eval.reports import Claim, Plot
from spark_eval.reports.html import render

PLAN = Recovery(times=2, away=2.0, all_away=20.0)


def trace(struck, answered, until=30.0, recycled=False, run=0):
    """Someone asks every tenth of a second, from a second before the strike; every answer takes 10 ms."""
    times = [number / 10 for number in range(-10, round(until * 10))]
    return pa.Table.from_pylist(
        [
            {
                "figure": f"{FIGURE}{struck}",
                "variant": CERTIFICATES,
                "run": run,
                "at": at,
                "failed": int(not answered(at)),
                "recycled": int(recycled and answered(at)),
                "seconds": 0.01 if answered(at) else None,
            }
            for at in times
        ]
    )


def test_what_is_answered_while_something_is_away_is_counted_until_it_is_started_again():
    [point] = recovery_points(trace(ONE_SERVER, lambda at: not 0 <= at < 0.5), PLAN)
    assert (point.asked, point.answered, point.recycled) == (20, 15, 0)
    assert point.failed_last == [pytest.approx(0.4)]
    assert point.silences == [pytest.approx(0.51)]


def test_each_time_counts_by_itself():
    times = [
        trace(ALL_PDPS, lambda at, back=back: not 0 <= at < back, run=run)
        for run, back in enumerate((21, 25))
    ]
    [point] = recovery_points(pa.concat_tables(times), PLAN)
    assert point.failed_last == [pytest.approx(20.9), pytest.approx(24.9)]
    assert (point.asked, point.answered) == (400, 0)


def test_where_nothing_fails_nothing_has_to_recover():
    [point] = recovery_points(trace(ONE_SERVER, lambda _: True), PLAN)
    assert (point.answered, point.failed_last) == (point.asked, [0.0])
    assert point.silences == [pytest.approx(0.1)]


def test_a_trace_of_the_whole_experiment_has_other_rows_too():
    """Response times are not asked at a pace, and have no time `at` which they were asked."""
    mine = trace(ALL_PDPS, lambda at: not 0 <= at < 21)
    others = pa.Table.from_pylist(
        [{**row, "figure": figure, "at": None} for row in mine.to_pylist() for figure in ("", "pdps")],
        schema=mine.schema,
    )
    whole = pa.concat_tables([others, mine])
    assert recovery_points(whole, PLAN) == recovery_points(mine, PLAN)
    assert recovery_curves(whole) == recovery_curves(mine)


def test_a_curve_shows_when_answers_end_and_come_back():
    [curve] = recovery_curves(trace(ALL_SERVERS, lambda at: not 10 <= at < 25))
    shares = dict(zip(curve.at, curve.answered, strict=True))
    assert (shares[9.75], shares[10.25], shares[24.75], shares[25.25]) == (1, 0, 0, 1)


@pytest.mark.parametrize(("until", "agrees"), [(9.5, True), (12.0, False)])
def test_a_cache_that_answers_beyond_its_lease_is_said_to_differ(until, agrees):
    seen = trace(ALL_SERVERS, lambda at: at < until or at > 24, recycled=True)
    result = Result(recovery=recovery_points(seen, PLAN), recovery_curves=recovery_curves(seen))
    plan = load(shipped("quick"))
    report = make_report(plan, frozenset([Part.RECOVERY]), result, "command")
    section = report.sections[0]
    [claim] = [part for part in section.parts if isinstance(part, Claim)]
    assert claim.agrees is agrees
    assert any(isinstance(part, Plot) for part in section.parts)
    assert "Wei" not in render(report)


def test_the_lease_is_not_judged_where_the_store_was_not_away_for_longer():
    short = Recovery(all_away=5.0)
    seen = trace(ALL_SERVERS, lambda at: at < 4 or at > 5, recycled=True)
    report = make_report(
        load(shipped("quick")),
        frozenset([Part.RECOVERY]),
        Result(recovery=recovery_points(seen, short)),
        "command",
    )
    assert not [part for part in report.sections[0].parts if isinstance(part, Claim)]

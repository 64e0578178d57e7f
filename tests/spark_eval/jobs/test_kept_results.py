"""The runs kept in docs/results: whole, readable by what reads results today, and told of on the page."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from spark_eval.experiment.plan import load
from spark_eval.experiment.points import Result
from spark_eval.jobs.experiment import PLAN, REPORT, RESULT, TRACES, compare_experiments
from spark_eval.schemas import TRACE

DOCS = Path(__file__).parents[3] / "docs"
KEPT = sorted(path for path in (DOCS / "results").iterdir() if path.is_dir())
MOST_BYTES = 8_000_000


@pytest.mark.parametrize("folder", KEPT, ids=lambda path: path.name)
def test_a_kept_run_is_whole_and_small_and_the_page_names_it(folder):
    result = msgspec.json.decode((folder / RESULT).read_bytes(), type=Result)
    load(folder / PLAN)
    assert result.machine.processor
    assert result.machine.load
    assert not result.failures
    assert (folder / REPORT).read_text().startswith("<!doctype html>")
    assert pq.read_table(folder / TRACES).schema.equals(TRACE)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < MOST_BYTES
    assert f"docs/results/{folder.name}/{REPORT}" in (DOCS / "experiments.md").read_text()


def test_kept_runs_can_be_compared():
    found = compare_experiments(KEPT[0], KEPT[-1])
    assert len(found.times) == len({(each.figure, each.variant) for each in found.times}) > 0

"""Ctrl-C in the middle of an experiment: every process that it started ends, and what was measured is kept."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.waiting import PATIENCE, eventually

PLAN = """
seed: 7
availability:
  population: {requests: 40, objects: 10, deadline: 0.2}
  simulated_runs: 3
  block: 3
  live_runs: 3
  pace: 60
  faster: 60
  sweeps: {a: {live: true, pdps: [2], overlap: [0.5]}}
"""
WATCHED = """
import sys
from spark_eval.measurement import live_service
from spark_eval.runtime import Steps

run_fabric, step, runs = live_service.run_fabric, Steps.step, []

def running(tasks, hosts):
    runs.append(1)
    if len(runs) == 2:
        print("second live run", flush=True)
    return run_fabric(tasks, hosts)

def stepping(steps, words, total):
    if "simulating" in words:
        print("simulating", flush=True)
    return step(steps, words, total)

live_service.run_fabric, Steps.step = running, stepping
sys.argv = ["authfabric", *sys.argv[1:]]
from authfabric.cli import main
main()
"""
"""The command itself, which says how far it is: what is measured so far is the same each time."""


def children(pid):
    """The processes that belong to this one, and to those."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid:
            found += [int(stat.parent.name), *children(int(stat.parent.name))]
    return found


@pytest.mark.parametrize(
    ("moment", "runs"), [("second live run", 1), pytest.param("simulating", 3, marks=pytest.mark.cluster)]
)
def test_what_was_started_ends_and_what_was_measured_is_kept(moment, runs, tmp_path):
    place = tmp_path / "work"
    place.mkdir()
    (place / "plan.yaml").write_text(PLAN)
    words = ["experiment", "availability", "--plan", "plan.yaml", "--out", "out"]
    command = [sys.executable, "-c", WATCHED, *words]
    with (
        (tmp_path / "said").open("w+") as said,
        subprocess.Popen(
            command, cwd=place, stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True
        ) as ran,
    ):
        try:
            assert any(line.strip() == moment for line in ran.stdout)
            started = children(ran.pid)
            os.killpg(ran.pid, signal.SIGINT)  # as a terminal does: everyone in the group has it
            ran.wait(2 * PATIENCE)
        finally:
            ran.kill()
        said.seek(0)
        words = said.read()
    assert ran.returncode == 128 + signal.SIGINT, words
    assert started
    asyncio.run(eventually(lambda: not [pid for pid in started if Path(f"/proc/{pid}").exists()]))
    assert {path.name for path in place.iterdir()} == {"plan.yaml", "out-unfinished"}
    assert "what was measured is in out-unfinished" in words
    assert "Traceback" not in words
    kept = pq.read_table(place / "out-unfinished" / "traces" / "live.parquet")
    assert kept.num_rows == runs * 2 * 40

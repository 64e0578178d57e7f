"""Ctrl-C in the middle of an experiment: every process that it started ends, and what was measured is kept."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

PLAN = """
seed: 7
availability:
  population: {requests: 100, objects: 10, deadline: 1.0}
  simulated_runs: 3
  block: 3
  live_runs: 3
  pace: 60
  faster: 60
  sweeps: {a: {live: true, pdps: [2], overlap: [0.5]}}
"""
STOPPED = """
import sys
from spark_eval.measurement import live_service

run_fabric, runs = live_service.run_fabric, []

def interrupting(tasks):
    runs.append(1)
    if len(runs) == 2:
        print("in the middle", flush=True)
    return run_fabric(tasks)

live_service.run_fabric = interrupting
sys.argv = ["authfabric", *sys.argv[1:]]
from authfabric.cli import main
main()
"""


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


@pytest.mark.cluster
def test_what_was_started_ends_and_what_was_measured_is_kept(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    words = ["experiment", "availability", "--plan", "plan.yaml", "--out", "out"]
    command = [sys.executable, "-c", STOPPED, *words]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ran:
        assert ran.stdout.readline() == "in the middle\n"
        started = children(ran.pid)
        ran.send_signal(signal.SIGINT)
        said = ran.communicate(timeout=120)[1]
    assert ran.returncode == 128 + signal.SIGINT, said
    assert started
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    assert {path.name for path in tmp_path.iterdir()} == {"plan.yaml", "out-unfinished"}
    assert "what was measured is in out-unfinished" in said
    kept = pq.read_table(tmp_path / "out-unfinished" / "traces" / "live.parquet")
    assert kept.num_rows == 2 * 100

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from spark_eval import jobs
from spark_eval.experiment.cell import Cell
from spark_eval.experiment.points import AvailabilityPoint, Result, Twins

WITHOUT_SPARK = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRA:
            raise ModuleNotFoundError(name)

EXTRA = {"pyspark", "numpy", "pandas", "pyarrow", "matplotlib"}
sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in EXTRA else found(name, package)
sys.argv = ["authfabric", *sys.argv[1:]]
from authfabric.cli import main
main()
"""


def command(*words, cwd=None):
    return subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [["--help"], ["experiment", "--help"]])
def test_help_works_without_spark(words):
    done = command("-c", WITHOUT_SPARK, *words)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_without_spark_the_error_says_what_to_install():
    done = command("-c", WITHOUT_SPARK, "experiment", "all", "--quick")
    assert done.returncode == 3
    assert "pip install 'authfabric[spark]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_bad_plan_is_one_line_and_leaves_nothing(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("seed: 1\navailability: {sweeps: {a: {overlap: [7]}}}\nresponse_time: {}\n")
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["experiment", "all", "--plan", str(plan), "--out", str(out)])
    assert done.exit_code == 3
    (line,) = done.stderr.splitlines()
    assert "plan.yaml: `availability.sweeps" in line
    assert not out.exists()
    assert {path.name for path in tmp_path.iterdir()} <= {"plan.yaml", "cache"}


def test_a_cluster_that_is_not_there_is_said_before_anything_is_measured(tmp_path):
    words = ["--quick", "--master", "spark://127.0.0.1:1", "--out", str(tmp_path / "out")]
    done = command("-m", "authfabric", "experiment", "availability", *words)
    assert done.returncode == 3
    assert "no Spark session on `spark://127.0.0.1:1`: nothing answers at 127.0.0.1:1" in done.stderr
    assert "asking failing PDPs" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_plan_and_the_quick_one_exclude_each_other(tmp_path):
    done = CliRunner().invoke(app, ["experiment", "all", "--quick", "--plan", str(tmp_path / "plan.yaml")])
    assert done.exit_code == 2


def point(decrease):
    return AvailabilityPoint(
        "live", Cell(4, 0.5), 50, 5_000, 0.01, 0.09, decrease, margin=0.02, expected=0.84
    )


@pytest.mark.parametrize(
    ("result", "code", "words"),
    [
        (Result([point(0.83)], Twins(2, 2, 10)), 0, ["1 of 1 points agree", "2 of 2 live runs"]),
        (
            Result([point(0.83), point(0.8)], Twins(2, 2, 10)),
            1,
            ["1 of 2 points agree", "live, 4 PDPs, overlap 0.5", "80.00% ± 2.00%", "not 84.00%"],
        ),
        (Result([point(0.83)], Twins(2, 1, 10)), 0, ["1 of 2 live runs"]),
    ],
)
def test_what_does_not_agree_is_said_and_is_no_success(result, code, words, monkeypatch, tmp_path):
    monkeypatch.setattr(jobs, "run_experiment", lambda job, steps: result)
    command = ["experiment", "availability", "--quick", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == code, done.output
    assert all(each in done.output for each in [*words, "report.html"])
    document = msgspec.json.decode(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert document["points"] - len(document["differing"]) == 1
    assert document["twins"] == msgspec.to_builtins(result.twins)

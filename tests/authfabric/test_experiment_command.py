from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("words", [["--help"], ["experiment", "--help"], ["experiment", "all", "--help"]])
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
    done = command("-m", "authfabric", "experiment", "all", "--plan", str(plan), "--out", str(out))
    assert done.returncode == 3
    assert "plan.yaml: `availability.sweeps" in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()
    assert {path.name for path in tmp_path.iterdir()} <= {"plan.yaml", "cache"}

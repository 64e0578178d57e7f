"""Commands that people wait for load nothing that they do not need. Times are shown by `benchmarks.operate`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from authfabric import __version__
from authfabric.cli import app
from authfabric.entry import overview

LOADED = "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
HEAVY_FOR_ASKING = {
    "bus.runtime.process", "cryptography.hazmat.primitives.serialization", "cryptography.x509", "ctypes",
    "google.protobuf", "jinja2", "lark", "numpy", "opentelemetry", "pdp", "prometheus_client", "py_abac",
    "pydantic", "pyspark", "rich", "sdp_cache.inference", "starlette", "uvloop", "yaml", "zoneinfo",
}  # fmt: skip


def modules_of(*words):
    """What a command has loaded when it is over."""
    program = f"{LOADED}sys.argv = ['authfabric', *{words!r}]; from authfabric.entry import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_overview_load_no_library_at_all(word):
    mine = {each for each in modules_of(word) if each.partition(".")[0] == "authfabric"}
    assert mine == {"authfabric", "authfabric.command_table", "authfabric.entry"}
    assert not {"typer", "rich", "asyncio", "importlib.metadata", "typing", "re"} & (
        modules_of(word) - modules_of_python()
    )


def modules_of_python():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60)
    return set(done.stderr.split())


def test_asking_loads_no_engine_no_grammar_and_nothing_that_draws():
    loaded = modules_of("ask", "alice", "/x", "read", "--insecure", "--url", "nats://127.0.0.1:1")
    assert "pep.enforcer" in loaded
    assert not HEAVY_FOR_ASKING & loaded


def test_garbage_is_collected_while_a_command_runs_but_not_looked_for_in_what_it_has_loaded():
    state = (
        "import gc, atexit; atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count() > 10_000)); "
    )
    words = ["authfabric", "ask", "a", "/x", "read", "--insecure", "--url", "nats://127.0.0.1:1"]
    program = f"{state}import sys; sys.argv = {words!r}; from authfabric.entry import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "True True"


def test_the_version_is_that_of_the_package():
    assert __version__ == metadata.version("authfabric")


@pytest.mark.parametrize("columns", [40, 72, 80, 120])
def test_the_overview_is_what_the_commands_themselves_would_say(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    command = get_command(app)
    assert overview(columns) == command.get_help(
        command.make_context("authfabric", ["x"], resilient_parsing=True)
    )


def test_values_that_need_checking_are_still_checked():
    refused = CliRunner().invoke(app, ["ask", "a", "/x", "read", "--strategy", "nobody"])
    assert (refused.exit_code, "nobody" in refused.stderr) == (2, True)
    missing = CliRunner().invoke(app, ["ask", "a"])
    assert (missing.exit_code, "OBJECT" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    "words", [["status"], ["doctor"], ["ask", "a", "/x", "read"], ["policy", "list"], ["audit", "tail"]]
)
def test_credentials_that_are_not_there_are_named_in_one_line_by_every_command(words, tmp_path):
    environment = os.environ | {"AUTHFABRIC_CREDENTIALS": str(tmp_path / "none.json")}
    command = [sys.executable, "-m", "authfabric", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode in {2, 3}
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "none.json" in line

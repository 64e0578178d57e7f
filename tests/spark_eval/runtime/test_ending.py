"""Whoever ends a command by a signal finds nothing half written behind it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

IDLE = """
import sys, time
from pathlib import Path
from spark_eval.runtime import lazy_session
from spark_eval.runtime import whole_folder

with lazy_session(), whole_folder(Path(sys.argv[1]), "mark") as folder:
    (folder / "half").write_text("")
    print("busy", flush=True)
    while True:
        time.sleep(0.05)
"""
FINALIZING = """
import sys, time
from pathlib import Path
from spark_eval.runtime import lazy_session
from spark_eval.runtime import whole_folder

class Slow:
    def __del__(self):
        print("busy", flush=True)
        while True:
            time.sleep(0.05)

with lazy_session(), whole_folder(Path(sys.argv[1]), "mark") as folder:
    (folder / "half").write_text("")
    Slow()
    while True:
        time.sleep(0.05)
"""
"""Waits in a finalizer, out of which Python lets no exception."""
WRITING = """
import sys, threading, time
from pathlib import Path
from spark_eval.runtime import SparkOptions, lazy_session
from spark_eval.runtime import whole_folder

def slowly(batches):
    import time
    for batch in batches:
        yield batch
        time.sleep(0.2)

def watch(folder):
    while not any(folder.rglob("*.parquet")):
        time.sleep(0.05)
    print("busy", flush=True)

with lazy_session(SparkOptions("local[2]")) as session, whole_folder(Path(sys.argv[1]), "mark") as folder:
    threading.Thread(target=watch, args=(folder,), daemon=True).start()
    numbers = session().range(0, 4000, 1, 4000)
    numbers.mapInArrow(slowly, "id long").write.parquet(str(folder / "decisions"))
"""


def end(program, folder, number):
    """What is left in the folder when a program was ended in the middle, and how it ended."""
    folder = folder / "work"
    folder.mkdir()
    command = [sys.executable, "-c", program, str(folder / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "busy\n"
        process.send_signal(number)
        try:
            process.wait(60)
        finally:
            process.kill()
    return sorted(folder.iterdir()), process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_half_written_vanishes(tmp_path, number):
    assert end(IDLE, tmp_path, number) == ([], 128 + number)


def test_a_signal_in_the_middle_of_a_finalizer_ends_it_too(tmp_path):
    assert end(FINALIZING, tmp_path, signal.SIGINT) == ([], 128 + signal.SIGINT)


@pytest.mark.cluster
def test_what_spark_is_writing_vanishes_too(tmp_path):
    assert end(WRITING, tmp_path, signal.SIGTERM) == ([], 128 + signal.SIGTERM)

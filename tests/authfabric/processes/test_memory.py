"""Memory that was freed is used again, instead of being asked for page by page."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from authfabric.processes.memory import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    print("cannot")
    raise SystemExit
size = 200_000
for round in range(201):
    if round == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    messages = [b"x" * size for _ in range(5)]
    del messages
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    if done.stdout.strip() == "cannot":
        pytest.skip("this C library has no such setting")
    return int(done.stdout)


def test_large_messages_that_come_and_go_take_no_new_pages():
    if faults("as ever") < 1000:
        pytest.skip("this C library keeps it anyhow")
    assert faults("kept") < 1000


LOOKING = """
import gc
from authfabric.processes.memory import collect_garbage_rarely
looked_at = []
def note(phase, about):
    if phase == "start" and about["generation"] == 1:
        looked_at.append(len(gc.get_objects(0)) + len(gc.get_objects(1)))
collect_garbage_rarely()
gc.callbacks.append(note)
kept = [[each] for each in range(300_000)]
print(max(looked_at))
"""


def test_garbage_is_looked_for_among_few_new_objects_at_a_time():
    done = subprocess.run([sys.executable, "-c", LOOKING], capture_output=True, text=True, check=True)
    assert 10_000 < int(done.stdout) < 50_000

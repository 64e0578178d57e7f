"""Takes each defence away in a copy of the project, and sees that the test which shows it fails: `make mutations`.

With words, only those whose test has one of them in its name.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.mutation import ROOT, Mutation

SECONDS = 300
_ENVIRONMENT = {"AUTHFABRIC_TEST_PATIENCE": "10"}  # most tests fail here, and by waiting
_PYTEST = (sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")


def main(words: Sequence[str]) -> int:
    chosen = [each for each in MUTATIONS if not words or any(word in each.test for word in words)]
    with tempfile.TemporaryDirectory(prefix="authfabric-mutations-") as folder:
        copy = Path(folder, "project")
        _copy(copy)
        outcome, why = _run(copy, sorted({each.test for each in chosen}))
        if outcome != "passed":
            print(f"before anything is taken away, the tests must pass: {outcome}\n{why}")
            return 1
        survived = sum(not _is_noticed(copy, each) for each in chosen)
    print(f"{len(chosen) - survived} of {len(chosen)} defences are missed when they are taken away")
    return bool(survived)


def _is_noticed(copy: Path, mutation: Mutation) -> bool:
    before = {edit.file: (copy / edit.file).read_text() for edit in mutation.edits}
    for edit in mutation.edits:
        edit.apply(copy)
        _forget_compiled(copy / edit.file)
    outcome, why = _run(copy, [mutation.test])
    for file, text in before.items():
        (copy / file).write_text(text)
        _forget_compiled(copy / file)
    noticed = outcome == "failed"
    print(f"{'ok ' if noticed else 'NO '} {mutation.test}\n      {outcome}: {why}", flush=True)
    return noticed


def _forget_compiled(file: Path) -> None:
    """Python tells two versions of a file apart by second and size, and these may have the same."""
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)


def _copy(copy: Path) -> None:
    listed = ("git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    done = subprocess.run(listed, capture_output=True, text=True, check=True)
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)


def _run(copy: Path, tests: Sequence[str]) -> tuple[str, str]:
    """Whether tests passed or failed, or what else came of them; and the first words of why."""
    try:
        done = subprocess.run(
            [*_PYTEST, *tests],
            cwd=copy,
            env=os.environ | _ENVIRONMENT | {"PYTHONPATH": str(copy)},  # of processes that tests start too
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hung", f"it did not end within {SECONDS} s"
    if done.returncode == 0:
        return "passed", ""
    why = (
        "; ".join(re.findall(r"^E +(\S.*)$", done.stdout, re.M)[:2])
        or done.stdout[-400:] + done.stderr[-400:]
    )
    failed = done.returncode == 1 and re.search(r"\b\d+ failed\b", done.stdout) is not None
    return ("failed" if failed else "broken"), why


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Takes each defence away in a copy of the project, and sees that the test which shows it fails: `make mutations`.

With words, only those whose test has one of them in its name. Modules of tests are shared among `WORKERS` copies.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.mutation import ROOT, Mutation

SECONDS = 300
"""Maximum seconds of one run of pytest."""
WORKERS = 2 * (os.cpu_count() or 1)
"""Copies of the project at work at once. Tests wait for processes and servers more than they compute."""
PATIENCE = (10, 60)
"""Seconds that tests wait for an event: most fail here, and by waiting. The second is for modules that need more."""
_PYTEST = (sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")


def main(words: Sequence[str]) -> int:
    chosen = [each for each in MUTATIONS if not words or any(word in each.test for word in words)]
    modules: dict[str, list[Mutation]] = defaultdict(list)
    for each in chosen:
        modules[each.test.partition("::")[0]].append(each)
    waiting = sorted(modules.values(), key=len)
    with tempfile.TemporaryDirectory(prefix="authfabric-mutations-") as folder:
        copies = [Path(folder, str(number), "project") for number in range(min(WORKERS, len(waiting)))]
        with ThreadPoolExecutor(max_workers=max(1, len(copies))) as pool:
            missed = sum(pool.map(lambda copy: _work(copy, waiting), copies))
    print(f"{missed} of {len(chosen)} defences are missed when they are taken away")
    return missed != len(chosen)


def _work(copy: Path, waiting: list[list[Mutation]]) -> int:
    """Takes one module of tests after the other, and counts the defences that they miss."""
    _copy(copy)
    missed = 0
    while True:
        try:
            mutations = waiting.pop()  # atomic: other copies take from it too
        except IndexError:
            return missed
        for patience in PATIENCE:
            outcome, why = _run(copy, sorted({each.test for each in mutations}), patience)
            if outcome == "passed":
                missed += sum(_is_noticed(copy, each, patience) for each in mutations)
                break
        else:
            tests = mutations[0].test.partition("::")[0]
            print(f"NO  {tests}\n      {outcome} before anything was taken away: {why}", flush=True)


def _is_noticed(copy: Path, mutation: Mutation, patience: int) -> bool:
    before = {edit.file: (copy / edit.file).read_text() for edit in mutation.edits}
    for edit in mutation.edits:
        edit.apply(copy)
        _forget_compiled(copy / edit.file)
    outcome, why = _run(copy, [mutation.test], patience)
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


def _run(copy: Path, tests: Sequence[str], patience: int) -> tuple[str, str]:
    """Whether tests passed or failed, or what else came of them; and the first words of why."""
    environment = {"AUTHFABRIC_TEST_PATIENCE": str(patience), "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(
            [*_PYTEST, *tests],
            cwd=copy,
            env=os.environ | environment,  # of processes that tests start too
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

"""Run the few tests that failed in a shared run again, each alone.

A machine with two cores is slow to answer while four test processes share it.  A test that fails there and passes alone
is named, to be looked into.  A test that fails alone too is broken, and so is a run in which many tests fail.
"""

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
FEW = 5
"""Maximum failed tests to run again."""


def main() -> int:
    """Exit code 0 if each of the few failed tests passes alone."""
    failed = list(json.loads(FAILED.read_text())) if FAILED.is_file() else []
    if not 1 <= len(failed) <= FEW:
        print(f"{len(failed)} tests failed; at most {FEW} are run again alone.")
        return 1
    print("These tests failed beside the others, and are run again alone:", *failed, sep="\n  ", flush=True)
    broken = [test for test in failed if subprocess.run([sys.executable, "-m", "pytest", test]).returncode]
    passed = [test for test in failed if test not in broken]
    if passed:
        print("These tests failed beside the others and passed alone. Look into them:", *passed, sep="\n  ")
    if broken:
        print("These tests failed alone too:", *broken, sep="\n  ")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

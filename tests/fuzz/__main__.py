"""`make fuzz`: sends strangers' bytes to every reader: `python -m tests.fuzz SECONDS [TARGET...]`.

Each target runs in a process of its own for so long, guided by coverage (atheris), from the corpus that is kept beside
this file; what it finds out on its way goes to `.cache/fuzz/`. An input that takes longer than a second, or more memory
than `MEGABYTES` beyond what the readers take by themselves, is a find like an exception.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
FOUND = Path(".cache/fuzz")
TIMEOUT = 1
"""Seconds that one input may take."""
MEGABYTES = 256
"""That one input may take."""
_WORKER = "--target"


def main(seconds: str, *chosen: str) -> int:
    from tests.fuzz.targets import TARGETS

    if unknown := set(chosen) - TARGETS.keys():
        sys.exit(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    failed = [name for name in chosen or TARGETS if not _runs(name, seconds)]
    print(f"finds in: {', '.join(failed)}" if failed else "no finds")
    return bool(failed)


def _runs(name: str, seconds: str) -> bool:
    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    print(f"{name}: {seconds} s", flush=True)
    command = [sys.executable, "-m", "tests.fuzz", _WORKER, name, seconds]
    return subprocess.run(command, check=False).returncode == 0


def fuzz(name: str, seconds: str) -> None:
    """Run one target in this process, until an input is a find or the time is over."""
    import atheris

    with atheris.instrument_imports(include=["authz", "bus", "pdp", "pep", "pubsub_core", "sdp_cache"]):
        from tests.fuzz.targets import one_input
    seeds = CORPUS / name
    for each in sorted(seeds.iterdir()):  # what is made when first used is not an input's fault
        one_input(name, each.read_bytes())
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 + MEGABYTES
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={TIMEOUT}",
        f"-rss_limit_mb={megabytes}",
        f"-artifact_prefix={FOUND / name}-",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], str(FOUND / name), str(seeds), *options], lambda data: one_input(name, data))
    atheris.Fuzz()


def run(arguments: Sequence[str]) -> int:
    if arguments[:1] == [_WORKER]:
        fuzz(*arguments[1:])
        return 0
    return main(*arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

"""The machine that an experiment ran on, and how busy it was meanwhile: what response times depend on."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

LOOK_SECONDS = 1.0
_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
_MEMORY = re.compile(r"^MemTotal:\s*(\d+) kB$", re.MULTILINE)


class Load(msgspec.Struct, frozen=True):
    """How many processes wanted to compute at a time (the load average over a minute), on average and at most."""

    mean: float
    most: float


class Machine(msgspec.Struct, frozen=True):
    """What a report says of the machine. `load` is by step."""

    processor: str = ""
    cores: int = 0
    memory_gb: float = 0.0
    system: str = ""
    python: str = ""
    load: dict[str, Load] = {}


def describe_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        processor=_found(_MODEL, "/proc/cpuinfo") or platform.processor() or platform.machine(),
        cores=os.cpu_count() or 0,
        memory_gb=round(int(_found(_MEMORY, "/proc/meminfo") or 0) / 2**20, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
    )


@contextlib.contextmanager
def watching_load(step: str, loads: dict[str, Load]) -> Iterator[None]:
    """Note how busy the machine is for the length of a block."""
    seen = [os.getloadavg()[0]]
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(LOOK_SECONDS):
            seen.append(os.getloadavg()[0])

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        loads[step] = Load(round(sum(seen) / len(seen), 2), round(max(seen), 2))


def _found(pattern: re.Pattern[str], file: str) -> str:
    with contextlib.suppress(OSError):
        if found := pattern.search(Path(file).read_text()):
            return found[1].strip()
    return ""

"""Clocks that jump: processes that are started so see another wall clock, which can be set while they run.

libfaketime stands between them and the system. The monotonic clock, by which leases run and the record is kept, is
left alone.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"


def find_library() -> Path | None:
    """libfaketime, as its Python package brings it; None if it is not installed."""
    spec = find_spec("libfaketime")
    if spec is None or spec.origin is None:
        return None
    library = Path(spec.origin).parent / _LIBRARY
    return library if library.exists() else None


class WallClock:
    """The wall clock of one process."""

    def __init__(self, file: Path, library: Path) -> None:
        self._file = file
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        self.shift(0.0)

    def shift(self, seconds: float) -> None:
        """Set it `seconds` ahead of the true time, or behind if negative."""
        self._file.write_text(f"{seconds:+.3f}\n")

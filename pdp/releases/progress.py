"""Progress of long work, logged for whoever waits for it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from time import monotonic

EVERY_SECONDS = 5.0
"""Seconds between two log lines about work that is not done yet."""

_log = logging.getLogger("authfabric.pdp")


@contextlib.contextmanager
def logging_progress(work: str, every: float = EVERY_SECONDS) -> Iterator[None]:
    """Say in the log, every few seconds until the block ends, that some work is being done."""
    done, began = threading.Event(), monotonic()

    def keep_saying() -> None:
        while not done.wait(every):
            _log.warning("%s: %.0f s so far", work, monotonic() - began)

    teller = threading.Thread(target=keep_saying, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()

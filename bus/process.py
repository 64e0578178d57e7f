"""Child processes: that they end with their parent, and that a signal to one already gone does no harm."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_SIGTERM = int(signal.SIGTERM)


if sys.platform == "linux":
    # Found before any fork: a child of a process with threads must not need a lock that one of them may hold.
    _prctl = ctypes.CDLL(None).prctl


def _ask_for_sigterm() -> None:
    _prctl(_PR_SET_PDEATHSIG, _SIGTERM)


end_with_parent: Callable[[], None] | None = _ask_for_sigterm if sys.platform == "linux" else None
"""For `preexec_fn`: has the kernel send SIGTERM to the child when its parent is gone, however that came about."""


def signal_process(pid: int, sig: signal.Signals) -> None:
    """Send a signal to a process of ours that may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)

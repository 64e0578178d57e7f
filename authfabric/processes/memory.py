"""How a process that carries much keeps its memory.

Brokers make and free messages of some 200 kB each, several at a time. The C library gives such memory back at once and
asks for it again with the next message; to have the pages filled in anew takes longer than to encode what they hold.
"""

from __future__ import annotations

import ctypes
import gc
import sys

KEPT_BYTES = 64 * 1024 * 1024
LARGEST_BYTES = 32 * 1024 * 1024
NEW_OBJECTS = 10_000
"""Objects made before it is looked for circles of them that nobody needs any more."""
LOOKS = 2
"""Looks at new objects after which those that outlasted them are looked at again: with 10, 40 ms of work at once."""
FULL_LOOKS = 40
"""Second looks after which everything may be looked at: as seldom as Python does where `LOOKS` is 10."""
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
"""As in malloc.h of the GNU C library."""


def keep_freed_memory() -> bool:
    """Have the C library keep what is freed, up to `KEPT_BYTES`; says whether it does."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt"):
        return False
    settings = ((_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, LARGEST_BYTES))
    return all(library.mallopt(name, value) == 1 for name, value in settings)


def collect_garbage_rarely(full_looks: int = FULL_LOOKS) -> None:
    """Keep what is there now for good, and look for garbage seldom, among few objects: everything else waits for it."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, LOOKS, full_looks)

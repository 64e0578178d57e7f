"""Where history is kept: sealed events as rows of a table for each type, in SQLite or PostgreSQL."""

from pubsub_core.history.storage.copying import HistoryPage, read_history, write_history
from pubsub_core.history.storage.database import MAPPED_BYTES
from pubsub_core.history.storage.reading import Clause, Counted, Counting, Reading
from pubsub_core.history.storage.store import PAGE, HistoryStore, Page, Stats

__all__ = [
    "MAPPED_BYTES",
    "PAGE",
    "Clause",
    "Counted",
    "Counting",
    "HistoryPage",
    "HistoryStore",
    "Page",
    "Reading",
    "Stats",
    "read_history",
    "write_history",
]

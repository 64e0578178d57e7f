"""History: events kept by the broker that hosted their publisher, sealed at rest, found again by filter and time."""

from typing import TYPE_CHECKING

from authz.lazy import lazily
from pubsub_core.history.at_rest import EventCipher
from pubsub_core.history.errors import INSTALL, HistoryDamaged, HistoryUnavailable
from pubsub_core.history.fluent_periods import followed, periods, read_fluent
from pubsub_core.history.page_messages import (
    Keeper,
    MarksFound,
    MarksWanted,
    PageFound,
    PageWanted,
    Past,
    PastBox,
    unpack_past,
    unpack_past_box,
)
from pubsub_core.history.pending_replays import Debt, Owed, Owing
from pubsub_core.history.position import Position, Span, common
from pubsub_core.history.retention import REPLACED, HistorySetting, Keeping, KeepRule, Search
from pubsub_core.history.vault import Vault

if TYPE_CHECKING:
    from pubsub_core.history.copying import HistoryPage, read_history, write_history
    from pubsub_core.history.database import MAPPED_BYTES
    from pubsub_core.history.fluent_log import FluentLog, superfluous
    from pubsub_core.history.reading import Clause, Counted, Counting, Reading
    from pubsub_core.history.recorder_service import recording
    from pubsub_core.history.store import HistoryStore, Page, Stats

__all__ = [
    "INSTALL",
    "MAPPED_BYTES",
    "REPLACED",
    "Clause",
    "Counted",
    "Counting",
    "Debt",
    "EventCipher",
    "FluentLog",
    "HistoryDamaged",
    "HistoryPage",
    "HistorySetting",
    "HistoryStore",
    "HistoryUnavailable",
    "KeepRule",
    "Keeper",
    "Keeping",
    "MarksFound",
    "MarksWanted",
    "Owed",
    "Owing",
    "Page",
    "PageFound",
    "PageWanted",
    "Past",
    "PastBox",
    "Position",
    "Reading",
    "Search",
    "Span",
    "Stats",
    "Vault",
    "common",
    "followed",
    "periods",
    "read_fluent",
    "read_history",
    "recording",
    "superfluous",
    "unpack_past",
    "unpack_past_box",
    "write_history",
]

__getattr__ = lazily(
    __name__,
    {
        "Clause": ".reading",
        "Counted": ".reading",
        "Counting": ".reading",
        "FluentLog": ".fluent_log",
        "HistoryPage": ".copying",
        "HistoryStore": ".store",
        "MAPPED_BYTES": ".database",
        "Page": ".store",
        "Reading": ".reading",
        "Stats": ".store",
        "read_history": ".copying",
        "recording": ".recorder_service",
        "superfluous": ".fluent_log",
        "write_history": ".copying",
    },
)

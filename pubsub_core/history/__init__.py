"""History: events kept by the broker that hosted their publisher, sealed at rest, found again by filter and time."""

from typing import TYPE_CHECKING

from authz.lazy import lazily
from pubsub_core.history.at_rest import EventCipher
from pubsub_core.history.errors import INSTALL, HistoryDamaged, HistoryUnavailable
from pubsub_core.history.fluent_periods import followed, periods, read_fluent
from pubsub_core.history.history_keys import HistoryKeys
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

if TYPE_CHECKING:
    from pubsub_core.history.fluent_log import FluentLog, superfluous
    from pubsub_core.history.recorder_service import recording
    from pubsub_core.history.storage import (
        MAPPED_BYTES,
        Clause,
        Counted,
        Counting,
        HistoryPage,
        HistoryStore,
        Page,
        Reading,
        Stats,
        read_history,
        write_history,
    )

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
    "HistoryKeys",
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
        "Clause": ".storage",
        "Counted": ".storage",
        "Counting": ".storage",
        "FluentLog": ".fluent_log",
        "HistoryPage": ".storage",
        "HistoryStore": ".storage",
        "MAPPED_BYTES": ".storage",
        "Page": ".storage",
        "Reading": ".storage",
        "Stats": ".storage",
        "read_history": ".storage",
        "recording": ".recorder_service",
        "superfluous": ".fluent_log",
        "write_history": ".storage",
    },
)

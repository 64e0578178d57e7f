"""History: events kept by the broker that hosted their publisher, sealed at rest, found again by filter and time."""

from typing import TYPE_CHECKING

from authz.lazy import lazily
from pubsub_core.history.at_rest import EventCipher
from pubsub_core.history.errors import INSTALL, HistoryDamaged, HistoryUnavailable
from pubsub_core.history.fluent_periods import followed, periods, read_fluent
from pubsub_core.history.interface import Keeper
from pubsub_core.history.page_messages import (
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
    from pubsub_core.history.database import MAPPED_BYTES
    from pubsub_core.history.fluent_log import superfluous
    from pubsub_core.history.recorder_service import recording
    from pubsub_core.history.store import HistoryStore, Stats

__all__ = [
    "INSTALL",
    "MAPPED_BYTES",
    "REPLACED",
    "Debt",
    "EventCipher",
    "HistoryDamaged",
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
    "PageFound",
    "PageWanted",
    "Past",
    "PastBox",
    "Position",
    "Search",
    "Span",
    "Stats",
    "common",
    "followed",
    "periods",
    "read_fluent",
    "recording",
    "superfluous",
    "unpack_past",
    "unpack_past_box",
]

__getattr__ = lazily(
    __name__,
    {
        "HistoryStore": ".store",
        "MAPPED_BYTES": ".database",
        "Stats": ".store",
        "recording": ".recorder_service",
        "superfluous": ".fluent_log",
    },
)

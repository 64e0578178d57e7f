"""Replay: past events fetched from all brokers that have them, within limits, and resumed after a restart."""

from pubsub_core.replay.fluent_exchange_service import FluentExchange
from pubsub_core.replay.fluent_uncertainty import Doubts
from pubsub_core.replay.limits import admit
from pubsub_core.replay.page_service import Pages
from pubsub_core.replay.rate_limit import Pace
from pubsub_core.replay.service import Replays

__all__ = ["Doubts", "FluentExchange", "Pace", "Pages", "Replays", "admit"]

"""Delivery to clients: subscription table, send window, dispatcher, and replayed events among live ones."""

from pubsub_core.delivery.admission import Admitted, Intake, Place
from pubsub_core.delivery.cursor import Cursor
from pubsub_core.delivery.dispatcher import Dispatcher
from pubsub_core.delivery.gap_notices import GapNotices
from pubsub_core.delivery.publisher_acknowledgement import Acknowledging
from pubsub_core.delivery.replay_stream import WINDOW, Merge, Playback, Query, Source, Waiting
from pubsub_core.delivery.replay_triggers import Due, Triggers
from pubsub_core.delivery.session import Counts, Item, Session, Setting
from pubsub_core.delivery.subscription_table import Subscription, SubscriptionTable

__all__ = [
    "WINDOW",
    "Acknowledging",
    "Admitted",
    "Counts",
    "Cursor",
    "Dispatcher",
    "Due",
    "GapNotices",
    "Intake",
    "Item",
    "Merge",
    "Place",
    "Playback",
    "Query",
    "Session",
    "Setting",
    "Source",
    "Subscription",
    "SubscriptionTable",
    "Triggers",
    "Waiting",
]

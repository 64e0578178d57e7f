"""What clients of the event service embed: connect, publish, subscribe, replay."""

from pubsub_core.client.client import CallRefused, EventClient
from pubsub_core.client.durable import DurableEvent, DurableSubscriber
from pubsub_core.client.publisher import Publisher
from pubsub_core.client.replay_reader import Replayed
from pubsub_core.client.subscriber import Delivered, Subscriber

__all__ = [
    "CallRefused", "Delivered", "DurableEvent", "DurableSubscriber", "EventClient", "Publisher", "Replayed",
    "Subscriber",
]  # fmt: skip

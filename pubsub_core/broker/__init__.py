"""The broker: what becomes of events between publishers, subscribers and other brokers. No I/O but `send`."""

from pubsub_core.broker.core import Broker
from pubsub_core.broker.reauthorization import Claim, Claims, replay_ask

__all__ = ["Broker", "Claim", "Claims", "replay_ask"]

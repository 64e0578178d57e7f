"""A database as publisher: events written with the rows they are about, and published once by a relay."""

from pubsub_core.outbox.relay_service import Relay
from pubsub_core.outbox.table import Outbox

__all__ = ["Outbox", "Relay"]

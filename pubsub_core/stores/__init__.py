"""What brokers keep outside themselves: event types, context tables, and what clients have used of their rates."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from pubsub_core.stores.follower_service import StoreFollower
    from pubsub_core.stores.table_store import TableStore
    from pubsub_core.stores.type_store import TypeStore
    from pubsub_core.stores.usage_store import UsageStore

__all__ = ["StoreFollower", "TableStore", "TypeStore", "UsageStore"]

__getattr__ = lazily(
    __name__,
    {
        ".follower_service": "StoreFollower",
        ".table_store": "TableStore",
        ".type_store": "TypeStore",
        ".usage_store": "UsageStore",
    },
)

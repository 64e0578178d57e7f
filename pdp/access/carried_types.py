"""The types that each broker may carry, as the access control service is told by whoever knows the vouches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bus.nats import Connection
from bus.server import Carried
from bus.stores import StorageClass


class CarriageRights(Protocol):
    """Knows what brokers may carry, and makes the consumers by which they read."""

    @property
    def storage(self) -> tuple[StorageClass, ...]:
        """The storage classes that there are."""
        ...

    def carried(self, place: str) -> Carried:
        """What whoever has this place may carry now."""
        ...

    def serving(
        self, member: Connection, changed: Callable[[], None], put_out: Callable[[str], None]
    ) -> AbstractAsyncContextManager[None]:
        """Follow vouches and answer brokers for the length of the block.

        `changed` is called whenever somebody may carry something else than before, and `put_out` with the place of
        whoever has written more records than it may.
        """
        ...

"""Notices that what PDPs look up about an entity has changed: whoever watches a decision asks again.

It carries no value and proves nothing. Who misses it notices the change when it is next asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from authz import Request
from bus.errors import NotConnected
from bus.nats import Connection, Subscription
from bus.wire import subjects


def tell_changed(bus: Connection, domain: str, root: str, ids: Iterable[str]) -> None:
    """Say to those who watch decisions about these entities that they should ask again."""
    with suppress(NotConnected):
        for each in ids:
            bus.send(subjects.entity_changed(domain, root, each), b"")


@asynccontextmanager
async def hearing_of_entities(
    bus: Connection, domain: str, request: Request, changed: Callable[[], None]
) -> AsyncIterator[None]:
    """Call back when something has changed that PDPs look up for a request, for the length of the block."""
    named = {
        "subject": request.subject.id,
        "object": request.object.id,
        "action": request.action.id,
        "context": "",
    }

    def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        changed()

    subscriptions: list[Subscription] = []
    try:
        with suppress(NotConnected):
            for root, entity in named.items():
                subscriptions.append(await bus.listen(subjects.entity_changed(domain, root, entity), hear))
        yield
    finally:
        with suppress(NotConnected):
            for each in subscriptions:
                await each.cancel()

"""The stream of server-sent events that keeps a page of the console up to date.

Invariant: whoever may no longer view the fabric is sent nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic

from msgspec import json

from authfabric.console.fabric_watch_service import Live
from authfabric.console.numbers import Numbers
from authfabric.console.pages import fragment
from authfabric.console.viewers import Deed, Viewer, Viewers
from bus.audit import DecisionFilter

TICK_SECONDS = 0.25
"""Time between two messages of what is new."""
RECHECK_SECONDS = 2.0
"""Time between two checks that the viewer may still view the fabric."""
MOST_LINES = 1000
"""Maximum decisions in one message. The message says how many were left out."""


async def live_news(
    live: Live,
    viewers: Viewers,
    viewer: Viewer,
    session: str,
    wanted: DecisionFilter,
    is_disconnected: Callable[[], Awaitable[bool]],
    numbers: Callable[[], Numbers],
) -> AsyncIterator[bytes]:
    """Parts of pages whenever they change, while the session lasts and the viewer may view the fabric."""
    number, shown, checked = live.log.heard, None, monotonic()
    while viewers.find(session) is not None and not await is_disconnected():
        await asyncio.sleep(TICK_SECONDS)
        if monotonic() > checked + RECHECK_SECONDS:
            if not await viewers.may(viewer, Deed.VIEW):
                return
            checked = monotonic()
        lines, missed = live.log.since(number, wanted, MOST_LINES)
        number = live.log.heard
        if lines or missed:
            rows = fragment("lines.html", lines=lines[::-1], may={"ask": True})
            yield _event("decisions", {"rows": rows, "shown": len(lines), "missed": missed})
        if (view := live.watch()) is not shown:
            shown = view
            yield _event("fabric", {"html": fragment("fabric.html", view=shown)})
            yield _event("numbers", {"html": fragment("numbers.html", numbers=numbers())})


def _event(name: str, value: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json.encode(value))

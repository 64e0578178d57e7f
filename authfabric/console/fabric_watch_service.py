"""What the console knows of a fabric: its members are polled, its releases and its decisions followed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Self

from authfabric.console.decision_log import DecisionLog
from authfabric.overview import FabricView, look, look_again
from authz import PublicKey
from bus.audit import AuditStore, read_record
from bus.errors import BadMessage, BusError, NotPermitted
from bus.feeds import MemberPoll
from bus.nats import Connection
from bus.runtime import in_background
from bus.wire import subjects, unpack_audit_page

POLL_SECONDS = 0.5
"""Time between two polls of the members while somebody watches."""
IDLE_SECONDS = 5.0
"""The same while nobody does."""
LOOK_SECONDS = 2.0
"""Time between two looks at the store and the streams while somebody watches."""
WATCHED_SECONDS = 15.0
"""How long after the last page somebody counts as watching."""
SILENT_SECONDS = 2.2
"""Time without an answer after which a member that is polled so often counts as silent."""
LAST_PAGES = 40
"""Pages of the audit stream that are read at the start."""

_log = logging.getLogger("authfabric.console")


@dataclass
class Live:
    """`async with Live(bus, domain, trusted) as live`: `live.view` and `live.log` are kept up to date."""

    bus: Connection
    domain: str
    trusted: Collection[PublicKey]
    log: DecisionLog = field(default_factory=DecisionLog)
    view: FabricView | None = None
    unaudited: str = ""
    """Why no decisions are shown, if none can be."""

    def __post_init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        self._woken = asyncio.Event()
        self._watched_until = self._watched_from = self._looked_at = float("-inf")

    async def __aenter__(self) -> Self:
        self._poll = await self._stack.enter_async_context(MemberPoll(self.bus, self.domain, detailed=True))
        await self._read_past()
        heard = f"{subjects.AUDITED}.{subjects.token(self.domain)}.*"
        subscription = await self.bus.listen(heard, self._hear)
        self._stack.push_async_callback(subscription.cancel)
        await self._look()
        in_background(self._stack, self._keep_looking)
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(BusError):
            await self._stack.aclose()

    def watch(self) -> FabricView | None:
        """The newest view, for somebody who looks at it now."""
        if monotonic() > self._watched_until:
            self._watched_from = monotonic()
            self._woken.set()
        self._watched_until = monotonic() + WATCHED_SECONDS
        return self.view

    async def _keep_looking(self) -> None:
        while True:
            watched = monotonic() < self._watched_until
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS if watched else IDLE_SECONDS):
                    await self._woken.wait()
            self._woken.clear()
            self._poll.call()
            try:
                await self._look()
            except BusError as error:
                _log.warning("the fabric cannot be looked at: %s", error)

    async def _look(self) -> None:
        """Look at the members, and now and then, or when they know of another release, at everything."""
        view = None if self.view is None else look_again(self.view, self._poll, self._silent)
        unknown = view is not None and any(each.hash and each.lag is None for each in view.members)
        if view is None or unknown or monotonic() > self._looked_at + LOOK_SECONDS:
            self._looked_at = monotonic()
            view = await look(self.bus, self.domain, self.trusted, self._poll, self._silent)
        self.view = view
        self.log.count({each.name: each.latencies for each in view.members if each.latencies}, time())

    @property
    def _silent(self) -> float:
        """How long a member that was polled as often as of late may take."""
        since = monotonic() - self._watched_from
        return SILENT_SECONDS if since > SILENT_SECONDS + IDLE_SECONDS else SILENT_SECONDS + IDLE_SECONDS

    async def _read_past(self) -> None:
        """Begin with the decisions that were audited last."""
        store = AuditStore(self.bus, self.domain, create=False)
        try:
            after = max(0, (await store.kept()).stop - 1 - LAST_PAGES)
            async for page in store.read(after):
                records = filter(None, map(read_record, page.records))
                self.log.take(records, 0.0)
        except NotPermitted as error:
            self.unaudited = str(error)
        except BusError as error:
            _log.warning("what was decided before cannot be read: %s", error)

    def _hear(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        try:
            page = unpack_audit_page(payload)
        except BadMessage:
            return
        self.log.take(filter(None, map(read_record, page.records)), time())

"""A client's heartbeat: sees that its broker is there, and takes the session up again when it is not."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from authz import AuthFabricError
from bus.errors import NoResponders, ReplyTimeout
from pubsub_core.errors import BrokerUntrusted

if TYPE_CHECKING:
    from pubsub_core.client.session import ClientSession

KEEPALIVE_SECONDS = 2.0
"""Seconds between two heartbeats."""
BEAT_SECONDS = 0.2
"""The same for a client that knows several brokers."""
AWAY = (
    "no answer from the broker (%s): events wait until it is back; `authfabric status` shows whether it runs"
)
BACK = "the broker `%s` answers again, and the session goes on"

_log = logging.getLogger("authfabric.events")


class KeepAlive:
    """The heartbeat of one session."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._told = False
        """Whether it was logged that no broker answers."""

    async def run(self) -> None:
        """Go on until the session has ended."""
        session = self._session
        while not session.closed:
            await asyncio.sleep(BEAT_SECONDS if session.brokers.many else KEEPALIVE_SECONDS)
            channel = session.channel
            try:
                lost = not session.joined or not await session.beat()
            except BrokerUntrusted as error:
                lost = True
                if not session.brokers.many:
                    session.end(str(error))
                    continue
                session.lose(channel)
            except AuthFabricError as error:
                lost = True
                if isinstance(error, NoResponders | ReplyTimeout) and session.bus.ready:
                    session.lose(channel)
            there = not lost or await session.try_to_connect(channel)
            if there:
                session.resend_old()
            self._tell(there)

    def _tell(self, there: bool) -> None:
        """Log once that no broker answers, and once that one does again."""
        session = self._session
        if session.closed:
            return
        if not there and not self._told:
            _log.warning(AWAY, session.brokers)
        elif there and self._told:
            _log.warning(BACK, session.broker)
        self._told = not there

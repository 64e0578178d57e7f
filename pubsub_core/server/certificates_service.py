"""The certificates of a running broker: those that it is given later count without a restart.

What is new counts within seconds. A vouch or a capability whose file is gone goes on to count until it runs out or is
taken back by whoever signed it: a file that is missing is no revocation. Keys that no longer sign for a domain are
trusted no more, and the sessions that rest on them end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from time import time

from authz import AuthFabricError
from pubsub_core.broker import Broker
from pubsub_core.errors import CredentialRefused
from pubsub_core.server.config import Certificates, Serving
from pubsub_core.server.key_service import Sealing
from pubsub_core.trust import Web

LOOK_SECONDS = 2.0
"""How often files are looked at."""

_log = logging.getLogger("authfabric.events")


class CertificateWatch:
    """Takes in what a broker is given while it runs."""

    def __init__(
        self, serving: Serving, broker: Broker, web: Web, sealing: Sealing, names_changed: Callable[[], None]
    ) -> None:
        """`names_changed` is called when definitions count that did not before, or no longer do."""
        self._serving = serving
        self._broker, self._setting = broker, broker.setting
        self._web = web
        self._sealing = sealing
        self._names_changed = names_changed
        self.problem = ""
        """Why what counts is not what the files say; empty while it is."""

    async def follow(self) -> None:
        """Look again and again, if there is anything to look at."""
        while self._serving.reread is not None:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self._apply(await asyncio.to_thread(self._serving.reread))
            except AuthFabricError as error:
                if str(error) != self.problem:
                    _log.error("certificates cannot be read, and stay as they were: %s", error)
                self.problem = str(error)
                continue
            if self.problem:
                _log.warning("certificates can be read again")
            self.problem = ""

    def _apply(self, given: Certificates) -> None:
        """Raises InvalidSignature for a vouch that is none."""
        before = self._serving
        new = [each for each in given.vouches if each not in before.vouches]
        if (given.clients, given.sealed) == (before.clients, before.sealed) and not new:
            return
        self._web.pin(*new)
        vouches = (*before.vouches, *new)
        self._serving = replace(before, clients=given.clients, vouches=vouches, sealed=given.sealed)
        if new:
            self._broker.presence.say_words()
            _log.warning("%d vouches are new", len(new))
        if given.sealed != before.sealed:
            self._sealing.renew(given.sealed)
            _log.warning("keys are asked for by other capabilities")
        if given.clients != before.clients:
            self._setting.credentials.trust(given.clients)
            self._end_untrusted()
            _log.warning("other keys sign for the domains of clients")
        self._setting.catalogue.trust(self._serving.trusted_names(), time())
        self._names_changed()

    def _end_untrusted(self) -> None:
        """End the sessions whose credentials do not count any more."""
        for session in list(self._broker.sessions.values()):
            try:
                self._setting.credentials.open(session.credential, time())
            except CredentialRefused as error:
                self._broker.close(session, str(error))

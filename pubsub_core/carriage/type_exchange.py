"""Definitions of event types that brokers tell each other of: those of other domains may have another store."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable

from authz.errors import InvalidSignature
from pubsub_core.carriage.records import MAX_UNTOLD, TOLD, Told, token_of
from pubsub_core.delivery import Counts, Setting
from pubsub_core.errors import TypeRefused
from pubsub_core.keys import CannotOpen, lock_for_network, unlock_in_network
from pubsub_core.trust import Web
from pubsub_core.types import SignedType


class TypeExchange:
    """The definitions that a broker sends to others, and receives."""

    def __init__(
        self,
        setting: Setting,
        counts: Counts,
        web: Web,
        network: bytes,
        say: Callable[[str, bytes], None],
    ) -> None:
        """`network` is a secret that all brokers share, if they do."""
        self._setting = setting
        self._counts = counts
        self._web = web
        self._network = network
        self._say = say
        self._untold: deque[bytes] = deque(maxlen=MAX_UNTOLD)
        """Definitions that came from brokers not trusted with them then."""
        self._words = 0
        """The version of the vouches by which those were last looked at."""
        self.found = False
        """Whether definitions have come from other brokers since somebody last looked."""

    def say(self) -> None:
        """Tell all others the definitions that are known here."""
        for each in self._setting.catalogue:
            definition = each.encode()
            data = TOLD.sign(Told(definition), self._setting.identity)
            locked = lock_for_network(self._network, "type record", data)
            self._say(f"type.{token_of(definition)}", locked)

    def hear(self, data: bytes) -> None:
        """Take in a record."""
        try:
            self._accept(unlock_in_network(self._network, "type record", data))
        except (CannotOpen, InvalidSignature):
            self._counts.forged += 1

    def _accept(self, data: bytes) -> None:
        """Take a definition in from a broker that its owner trusts with the type: others have none to tell of."""
        setting, now = self._setting, self._setting.now()
        opened = TOLD.read(data)
        with contextlib.suppress(TypeRefused):  # it is refused here as everywhere
            signed = SignedType.decode(opened.value.definition)
            definition = signed.definition
            if not self._web.would_trust(str(opened.signer), definition.id, definition.owner, now):
                self._counts.untrusted += 1
                self._untold.append(data)
                return
            before = setting.catalogue.revision
            setting.catalogue.accept(signed, now)
            self.found |= setting.catalogue.revision != before

    def review(self) -> None:
        """Look again at definitions when somebody else may be trusted."""
        if self._words != self._web.words.version:
            self._words = self._web.words.version
            untold = tuple(self._untold)
            self._untold.clear()
            for each in untold:
                self._accept(each)

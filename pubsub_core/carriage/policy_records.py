"""What owners say about their types, as brokers tell each other of it: whoever tells it, the owner has signed it."""

from __future__ import annotations

from collections.abc import Iterator

from authz.errors import InvalidSignature
from pubsub_core.delivery import Counts, Setting
from pubsub_core.keys import CannotOpen, lock_for_network, unlock_in_network
from pubsub_core.types import POLICY

_USE = "type policy"


class PolicyRecords:
    """The records of a broker, and those that it hears."""

    def __init__(self, setting: Setting, counts: Counts, network: bytes) -> None:
        """`network` is a secret that all brokers share, if they do."""
        self._policies = setting.policies
        self._counts = counts
        self._network = network

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Each by its name below the broker's place, of which a stream keeps the newest."""
        for data in self._policies:
            name = f"policy.{POLICY.peek(data).value.type}"
            yield name, lock_for_network(self._network, _USE, data)

    def hear(self, data: bytes) -> None:
        """Take one in, if its owner has signed it."""
        try:
            self._policies.accept(unlock_in_network(self._network, _USE, data))
        except (CannotOpen, InvalidSignature):
            self._counts.forged += 1

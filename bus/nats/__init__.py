"""Connections to NATS: dialing, renewal of credentials before they expire, and faults on purpose."""

from bus.nats.access_client import (
    CAPABILITY_REQUEST,
    CARRIED_MARK,
    AccessAnswer,
    ask_capability,
    ask_revocation,
    carried_mark,
    own_carried_mark,
    refusal,
    unpack_revocation,
)
from bus.nats.client import Handler
from bus.nats.connection import Connection
from bus.nats.connector import connect
from bus.nats.faults import FaultyConnection
from bus.nats.probes import SILENT_SECONDS, Probes
from bus.nats.relocation import Relocation
from bus.nats.subscription import Subscription

__all__ = [
    "CAPABILITY_REQUEST", "CARRIED_MARK", "SILENT_SECONDS", "AccessAnswer", "Connection", "FaultyConnection",
    "Handler", "Probes", "Relocation", "Subscription", "ask_capability", "ask_revocation", "carried_mark",
    "connect", "own_carried_mark", "refusal", "unpack_revocation",
]  # fmt: skip

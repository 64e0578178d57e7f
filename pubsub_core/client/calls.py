"""Calls to a broker: the subject of its replies, and the errors that they stand for."""

from __future__ import annotations

import secrets

from bus.nats import Connection
from bus.wire import subjects
from pubsub_core.errors import CallRefused, DurableElsewhere, DurableRefused, SessionLost, UnknownType
from pubsub_core.keys import CannotOpen, Channel
from pubsub_core.messages import Answer, Call

CALL_SECONDS = 5.0
"""How long a broker may take to answer."""


def opened(channel: Channel, payload: bytes) -> bytes:
    """What the broker says. Raises SessionLost if it is not for us, as when the broker has started anew."""
    try:
        return channel.open(payload)
    except CannotOpen:
        raise SessionLost("what the broker says cannot be read: connect again") from None


def mail_place(bus: Connection) -> str:
    """Below what a client hears from brokers: what its key says, where keys count."""
    return (
        secrets.token_hex(8) if bus.credentials is None else subjects.place(bus.credentials.identity.public)
    )


def raise_fault(call: Call, answer: Answer) -> None:
    """Raise what a broker's answer says is wrong."""
    name = str(getattr(call, "type", getattr(call, "name", "")))
    if answer.fault == "unknown":
        raise UnknownType(name)
    if answer.fault == "lost":
        raise SessionLost(answer.problem)
    if answer.fault == "elsewhere":
        raise DurableElsewhere(str(getattr(call, "durable", "")), answer.host)
    if answer.fault == "durable":
        raise DurableRefused(str(getattr(call, "durable", name)), answer.problem)
    raise CallRefused(type(call).__name__.lower(), name, answer.problem, answer.fault)

"""What a client needs to call a broker: the key by which it is spoken to, a place for mail, and errors for answers."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from authz import PublicKey
from authz.errors import InvalidSignature
from bus.nats import Connection
from bus.wire import broker as broker_subject
from bus.wire import subjects
from pubsub_core.errors import CallRefused, SessionLost, UnknownType
from pubsub_core.keys import CannotOpen, Channel, Offer
from pubsub_core.messages import BROKER_KEY, Answer, Call

CALL_SECONDS = 5.0
"""How long a broker may take to answer."""


class Met(NamedTuple):
    """A broker that has said by which key it is to be spoken to."""

    key: PublicKey | None
    channel: Channel
    session: str


async def meet(bus: Connection, domain: str, broker: str, session: str) -> Met:
    """Draw a channel with a broker. Raises InvalidSignature, CannotOpen, NoResponders."""
    offer = Offer()
    answer = await bus.ask(broker_subject(domain, broker, "key"), offer.public, CALL_SECONDS)
    word, key = BROKER_KEY.read(answer)
    if (word.broker, word.client) != (broker, offer.public):
        raise InvalidSignature
    return Met(key, offer.accept(word.exchange), session)


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
    raise CallRefused(type(call).__name__.lower(), name, answer.problem, answer.fault)

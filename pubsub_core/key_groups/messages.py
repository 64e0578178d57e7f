"""What brokers and key group managers say to each other. New fields come last and have defaults."""

from __future__ import annotations

import msgspec

from authz.crypto import Seal
from bus.wire import Unpack
from pubsub_core.key_groups.key_group import Change, Rules, Welcome
from pubsub_core.keys import Plan, Question

MAX_AGE = 30.0
"""Maximum age of a message in seconds, which bounds the skew between the clocks of brokers and managers."""


class Appointment(msgspec.Struct, frozen=True, array_like=True):
    """The owner of a type has someone manage its keys, until a time; signed by the owner. No name is in it."""

    type: str
    manager: str
    until: float
    since: float = 0.0
    """When it was signed: of two managers, the one appointed last counts."""

    def holds(self, type_: str, now: float) -> bool:
        """Whether it is about this type, has not ended, and was made by now: nobody could be appointed after one
        from the future."""
        return self.type == type_ and self.since - MAX_AGE <= now < self.until


class Introduction(msgspec.Struct, frozen=True, array_like=True):
    """Who manages a type's key groups, and which there are; signed by the manager."""

    type: str
    exchange: bytes
    """The key to which questions are encrypted."""
    plan: Plan
    rules: Rules = Rules()
    appointment: bytes = b""
    """The owner's word for it; nothing if it is the owner."""
    since: float = 0.0
    """When plan and rules were put in force: what was before is not believed any more."""
    at: float = 0.0
    """When it was signed."""
    retired: tuple[str, ...] = ()
    """Groups that are managed a little longer, for those who still go by a plan before."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A broker asks for the keys of some groups, or says that it needs them no more."""

    manager: str
    """Whom it asks: what is signed for one manager is of no use at another."""
    at: float
    """When, by its own clock."""
    groups: tuple[str, ...]
    chain: bytes
    """The capability that entitles it."""
    own_key: bytes
    """A secret drawn by it, to be shared with the manager."""
    leave: bool = False


class SignedRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request, encoded, and the signature of its capability's holder."""

    content: bytes
    signature: bytes


REQUEST_DOMAIN = b"authfabric key request 1\0"
"""Prefix of what is signed, so that no signature made for another purpose is accepted."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What the manager answers."""

    welcomes: tuple[Welcome, ...] = ()
    problem: str = ""
    """Why no keys are given, if that is so."""
    later: bool = False
    """Whether that may be otherwise in a moment: nobody is refused."""


class Told(msgspec.Struct, frozen=True, array_like=True):
    """Something signed, or encrypted, inside a message."""

    data: bytes


appointments = Seal("key manager appointment", Appointment)
introductions = Seal("key manager", Introduction)
changes = Seal("key change", Change)

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_signed_request = msgspec.msgpack.Decoder(SignedRequest).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
unpack_question = Unpack(Question)
unpack_told = Unpack(Told)

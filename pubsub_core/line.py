"""Reliable lines between brokers: numbered messages that arrive in order and once, although connections break.

The sender numbers what it sends and keeps the last of it; the receiver says what it lacks, and is sent that again.
Every message is authenticated by a secret that only the two share, so nobody else can use up a number. Invariant: what
`Incoming.take` hands on has the numbers in order, each once; a number is left out only if the sender says that it no
longer has it.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections import deque
from dataclasses import dataclass, field

import msgspec

KEPT = 1024
"""How many sent messages are kept for retransmission."""
KEPT_BYTES = 32 * 1024 * 1024


class Kind(enum.IntEnum):
    """What a message on a line holds."""

    PARCEL = 0
    CACHED = 1
    """A parcel in clear, for a broker with the same keys, under one seal."""
    BOX = 2
    """Any number of the others, sent at a steady pace."""


class Numbered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message on a line. `boot` grows each time the sender starts; it then begins to count again."""

    sender: str
    boot: int
    number: int
    data: bytes
    kind: Kind = Kind.PARCEL
    tag: bytes = b""
    type: str = ""
    """That of the events in it. It does not travel: the sender chooses by it who may carry them."""

    def tagged(self, secret: bytes) -> Numbered:
        """The same, with what shows that it comes from the one other broker that knows the secret."""
        return msgspec.structs.replace(self, tag=self._tag(secret), type="")

    def authentic(self, secret: bytes) -> bool:
        return bool(secret) and hmac.compare_digest(self.tag, self._tag(secret))

    def _tag(self, secret: bytes) -> bytes:
        head = f"{self.sender} {self.boot} {self.number} {self.kind}\0".encode()
        return hashlib.blake2b(
            head + self.data, key=secret, digest_size=16, person=b"authfabric line"
        ).digest()


@dataclass(slots=True)
class Outgoing:
    """The sending end."""

    number: int = 0
    """That of the last message sent."""
    _kept: deque[Numbered] = field(default_factory=deque)
    _bytes: int = 0

    def add(self, sender: str, boot: int, data: bytes, kind: Kind = Kind.PARCEL, type_: str = "") -> Numbered:
        """Number a message, and keep it."""
        self.number += 1
        message = Numbered(sender, boot, self.number, data, kind, type=type_)
        self._kept.append(message)
        self._bytes += len(data)
        while len(self._kept) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._kept.popleft().data)
        return message

    def since(self, number: int) -> list[Numbered]:
        """What there still is from a number on."""
        return [each for each in self._kept if each.number >= number]


@dataclass(slots=True)
class Incoming:
    """The receiving end."""

    boot: int = 0
    next: int = 0
    """The number that comes next."""
    _early: dict[int, Numbered] = field(default_factory=dict)
    _bytes: int = 0

    def begin(self, boot: int, last: int) -> None:
        """The sender has started, or is met for the first time, and has sent everything up to this number."""
        self.boot, self.next, self._early, self._bytes = boot, last + 1, {}, 0

    def take(self, message: Numbered) -> list[Numbered]:
        """What can be handled now, in order."""
        if message.boot != self.boot or message.number < self.next:
            return []
        if message.number == self.next or self._has_room(message):
            self._put(message)
        return self._ready()

    def lacks(self, last: int = 0) -> bool:
        """Whether something is missing, if the sender has sent everything up to this number."""
        return bool(self._early) or self.next <= last

    def skip(self, first: int) -> list[Numbered]:
        """The sender has nothing before this number any more: go on there."""
        self.next = max(self.next, first)
        for number in [each for each in self._early if each < self.next]:
            self._pop(number)
        return self._ready()

    def _has_room(self, message: Numbered) -> bool:
        return len(self._early) < KEPT and self._bytes + len(message.data) <= KEPT_BYTES

    def _put(self, message: Numbered) -> None:
        self._pop(message.number)
        self._early[message.number] = message
        self._bytes += len(message.data)

    def _pop(self, number: int) -> Numbered | None:
        message = self._early.pop(number, None)
        self._bytes -= len(message.data) if message is not None else 0
        return message

    def _ready(self) -> list[Numbered]:
        ready: list[Numbered] = []
        while (early := self._pop(self.next)) is not None:
            ready.append(early)
            self.next += 1
        return ready

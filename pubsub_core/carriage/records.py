"""What brokers say of themselves and of each other, each in a signed record."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import msgspec

from authz.crypto import Seal

MAX_STRANGERS = 64
"""The most brokers that are listened to though they are trusted with nothing known here."""
MAX_NAMES = 8
"""The most names under which one key may be a broker."""
MAX_NAME_LENGTH = 128
"""The longest name of a broker, or of a domain, that is listened to."""
MAX_PEERS = 1_000
"""The most brokers that are listened to at all."""
MAX_UNTOLD = 256
"""The most definitions that are kept of brokers that are not trusted with them, in case they are later."""
MAX_WANTS = 10_000
"""The most types in a sign of life."""


HELLO_SECONDS = 5.0
"""Longest time between two signs of life of a broker, among few."""


class Hello(msgspec.Struct, frozen=True):
    """A broker's sign of life."""

    name: str
    domain: str
    time: float
    boot: int
    """When it started."""
    wants: tuple[str, ...] = ()
    """The types, by UUID, that its clients want."""
    seals: tuple[str, ...] = ()
    """The types, by UUID, of which it wants nothing in clear."""
    groups: tuple[str, ...] = ()
    """The key groups whose keys it holds."""
    agreement: bytes = b""
    """Its half of the secrets by which brokers ask each other about the past."""
    leaving: bool = False
    history: str = ""
    """The name of the history that it shares with others, if it does."""
    every: float = HELLO_SECONDS
    """Longest time until the next, in seconds."""


class Told(msgspec.Struct, frozen=True):
    """A definition that a broker tells others of."""

    definition: bytes


HELLO = Seal("broker hello", Hello)
TOLD = Seal("broker type record", Told)


@dataclass(slots=True)
class Peer:
    """Another broker, as it last made itself known."""

    name: str
    domain: str
    key: str
    heard: float
    every: float = HELLO_SECONDS
    """Longest time between two of its signs of life, in seconds."""
    boot: int = 0
    wants: frozenset[str] = frozenset()
    seals: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    agreement: bytes = b""
    secret: bytes = b""
    """What only it and this broker know."""
    carries: set[str] = field(default_factory=set)
    """The types, by UUID, that it is trusted with."""


def word_record(word: bytes) -> tuple[str, bytes]:
    """The record of a vouch or a withdrawal: its name below its writer's place, and what it says."""
    return f"word.{token_of(word)}", word


def token_of(data: bytes) -> str:
    """A word that stands for some data and tells nothing of it."""
    return hashlib.blake2s(data, digest_size=16).hexdigest()

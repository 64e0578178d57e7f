"""Signed records: what brokers publish about themselves and about each other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import msgspec

from authz.crypto import Seal

MAX_STRANGERS = 64
"""Maximum brokers heard that are not trusted with any known type."""
MAX_NAMES = 8
"""Maximum broker names per key."""
MAX_NAME_LENGTH = 128
"""Maximum length of the name of a broker or a domain."""
MAX_PEERS = 1_000
"""Maximum brokers heard."""
MAX_UNTOLD = 256
"""Maximum definitions kept from brokers that are not trusted with them yet."""
MAX_WANTS = 10_000
"""Maximum types in a heartbeat."""


HELLO_SECONDS = 5.0
"""Maximum seconds between two heartbeats of a broker, among few."""


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
    """A token for some data that reveals nothing of it."""
    return hashlib.blake2s(data, digest_size=16).hexdigest()

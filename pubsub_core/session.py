"""The state of a broker: about each connected client, about every other broker, and about itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from authz import Identity, PublicKey
from authz.predicate import Predicate
from pubsub_core.catalogue import Catalogue
from pubsub_core.credential import Credentials
from pubsub_core.disclosure import Disclosures
from pubsub_core.enforcement import Enforcement
from pubsub_core.event import Event
from pubsub_core.keys.channel import Channel
from pubsub_core.keys.ring import KeyRing
from pubsub_core.keys.vault import Vault
from pubsub_core.line import Incoming, Outgoing
from pubsub_core.messages import Taken
from pubsub_core.outbox import Outbox
from pubsub_core.playback import Playback
from pubsub_core.proof import Proof, Scrutiny
from pubsub_core.rights import Holder
from pubsub_core.rules.judge import Rulebook
from pubsub_core.switchboard import Subscription

MAX_OBJECTIONS = 64
"""More bundles than a client has under way."""


class Item(msgspec.Struct, frozen=True, eq=False):
    """An event on its way to a client."""

    subscription: Subscription
    event: Event | None
    """None for the word that past events have ended."""
    raw: msgspec.Raw
    matched: Enforcement | None = None
    """The restriction by which it was found to be for this subscription."""
    part: int = 0
    """Which of the events that rules make of it."""


@dataclass(slots=True, eq=False)
class Session:
    """A client that is connected, and everything about it."""

    token: str
    key: PublicKey
    holder: Holder
    credential: bytes
    inbox: str
    heard: float
    outbox: Outbox[Item] = field(default_factory=Outbox)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    playbacks: dict[object, Playback] = field(default_factory=dict)
    """Past events on their way: those a client asked for by the number of their subscription."""
    played: list[Playback] = field(default_factory=list)
    """Those that have ended, of which something may still have to be sent again."""
    past_sent: Counter[int] = field(default_factory=Counter)
    """How many past events were sent, by the number of the subscription that they are for."""
    past_read: dict[int, int] = field(default_factory=dict)
    """How many of them the client has read, by its own word."""
    sending: dict[int, Playback] = field(default_factory=dict)
    """Of what rules send, that of which something was sent last, by the number of its subscription."""
    advertised: set[str] = field(default_factory=set)
    """The types that the client asked to publish, by UUID."""
    adverts: dict[str, Mapping[str, Enforcement]] = field(default_factory=dict)
    """What of it is granted, for each of them by the types concerned."""
    published: int = 0
    """The number of the last bundle taken."""
    recording: set[int] = field(default_factory=set)
    """Bundles that are being kept, and not passed on yet."""
    objections: dict[int, Taken] = field(default_factory=dict)
    """What was said of the last bundles of which something was not published."""
    channel: Channel | None = None
    """By which the client is told things that nobody else is to hear."""

    def object_to(self, taken: Taken) -> None:
        """Remember what was said of a bundle: the answer may be lost, and the bundle sent again."""
        self.objections[taken.number] = taken
        if len(self.objections) > MAX_OBJECTIONS:
            del self.objections[next(iter(self.objections))]

    def forget_past(self) -> None:
        """Count no longer what was sent of replays that are over and received."""
        live = {
            each.number for each in (*self.subscriptions.values(), *self.playbacks.values(), *self.played)
        }
        for number in self.past_sent.keys() - live:
            del self.past_sent[number]
            self.sending.pop(number, None)

    def may_publish(self, type_: str) -> Enforcement | None:
        for granted in self.adverts.values():
            if type_ in granted:
                return granted[type_]
        return None


@dataclass(slots=True)
class Peer:
    """Another broker, as it last made itself known."""

    name: str
    domain: str
    key: str
    heard: float
    subject: str
    """Where it takes parcels from this one."""
    cached_subject: str
    """Where it takes those that are in clear under one seal."""
    version: int = -1
    """Which of its wants is known here."""
    wants: Mapping[str, tuple[Predicate, ...]] = field(default_factory=dict)
    seals: frozenset[str] = frozenset()
    """The types, by UUID, of which it wants nothing in clear."""
    served: Mapping[str, tuple[Predicate, ...]] = field(default_factory=dict)
    """What of that it is sent, being trusted with it."""
    carries: set[str] = field(default_factory=set)
    """The types, by UUID, that it is trusted with."""
    groups: frozenset[str] = frozenset()
    """The key groups whose keys it says it holds."""
    agreement: bytes = b""
    secret: bytes = b""
    """What only it and this broker know; empty before it has said hello."""
    outgoing: Outgoing = field(default_factory=Outgoing)
    incoming: Incoming = field(default_factory=Incoming)
    asked: int = 0
    """The number from which on it was last asked to send again."""
    near: bool = False
    """Whether it is heard on a line of its own."""
    heard_near: float = 0.0
    hears: frozenset[str] = frozenset()
    """The brokers that it hears in this way."""
    direct: bool = False
    """Whether there is a line both ways."""
    reached: dict[str, float] = field(default_factory=dict)
    """When there was last a way to it for events of each type that it wants."""
    ready: bool = False
    """Whether it has said that it takes events from this broker, since both last started."""


class Recorder(Protocol):
    """Keeps what is published."""

    @property
    def full(self) -> bool:
        """Whether nothing more can be recorded for the moment."""
        ...

    def record(
        self,
        events: Sequence[tuple[Event, msgspec.Raw]],
        done: Callable[[str], None],
        replaced: Sequence[tuple[Event, msgspec.Raw]] = (),
    ) -> None:
        """Keep events, and those whose place they have taken, then call back: with the problem, if there is one."""
        ...


class Counts:
    """What a broker has done so far."""

    def __init__(self) -> None:
        self.published = self.delivered = self.forwarded = self.received = 0
        self.refused = self.withheld = self.forged = self.replayed = self.untrusted = self.overflowed = 0
        self.skewed = self.restricted = self.unreadable = self.verified = self.unverified = self.carried = (
            self.unroutable
        ) = 0


@dataclass(slots=True)
class Setting:
    """What a broker is, and what it draws upon."""

    name: str
    domain: str
    identity: Identity
    catalogue: Catalogue
    credentials: Credentials
    send: Callable[[str, bytes], None]
    now: Callable[[], float]
    nonce: Callable[[], bytes]
    scrutiny: Scrutiny
    vault: Vault = field(default_factory=lambda: Vault(KeyRing()))
    recorder: Recorder | None = None
    """Keeps what is published, before it is passed on; None if there is no history."""
    disclosures: Disclosures | None = None
    """Is told of everything that is sent under rules."""
    rules: Rulebook = field(init=False)

    def __post_init__(self) -> None:
        self.rules = Rulebook(self.catalogue, self.identity.derive("rules"))

    def vouch(self, proof: Proof, digests: bytes) -> Proof:
        """A proof of this broker's own, as of now, for what it has changed or had to keep."""
        own = Proof(proof.credential, self.now(), self.nonce(), b"", self.identity.public.raw)
        return own.sign(self.identity, digests)

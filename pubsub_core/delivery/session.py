"""Values of a broker: the sessions of its clients, the other brokers, and its counters."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol, TypeAlias

import msgspec

from authz import Identity, PublicKey
from pubsub_core.access import Disclosures, Enforcement, Holder
from pubsub_core.delivery.backpressure import Lag
from pubsub_core.delivery.replay_stream import Playback
from pubsub_core.delivery.send_window import SendWindow
from pubsub_core.delivery.stream_clock import StreamClock
from pubsub_core.delivery.subscription_table import Subscription
from pubsub_core.events import Event, EventCipher, GapReason, Missed, Proof, Scrutiny
from pubsub_core.keys import Channel, KeyRing
from pubsub_core.messages import Bundle, Taken
from pubsub_core.rules import Rulebook
from pubsub_core.trust import Credentials
from pubsub_core.types import Catalogue, OwnerPolicies

MAX_OBJECTIONS = 64
"""Maximum refusals remembered for a client: more than it has bundles in flight."""


class Item(msgspec.Struct, frozen=True, eq=False):
    """An event on its way to a client."""

    subscription: Subscription
    event: Event | None
    """None for a word: that past events have ended, or that events are missing."""
    raw: msgspec.Raw
    matched: Enforcement | None = None
    """The restriction by which it was found to be for this subscription."""
    part: int = 0
    """Which of the events that rules make of it."""
    missed: Missed | None = None
    """The events in whose place it stands, if it is the notice of a gap."""
    place: int = 0
    """Where it stands in the stream, for a subscription that outlasts its broker."""


Shape: TypeAlias = "tuple[tuple[object, ...], bool]"
"""The form in which an event is shown, and whether that is recorded."""


@dataclass(slots=True, eq=False)
class Session:
    """A client that is connected, and everything about it."""

    token: str
    key: PublicKey
    holder: Holder
    credential: bytes
    inbox: str
    heard: float
    send_window: SendWindow[Item] = field(default_factory=SendWindow)
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
    unanswered: set[int] = field(default_factory=set)
    """Bundles that were passed on, and whose acknowledgement waits for subscribers that are behind."""
    parked: deque[tuple[Bundle, Callable[[Taken], None]]] = field(default_factory=deque)
    """Bundles that came meanwhile, and how they are answered."""
    lag: Lag = field(default_factory=Lag)
    recorded: dict[Item, Shape] = field(default_factory=dict)
    """What has to be in the audit stream before it is sent, and is on its way there."""
    objections: dict[int, Taken] = field(default_factory=dict)
    """What was said of the last bundles of which something was not published."""
    channel: Channel | None = None
    """By which the client is told things that nobody else is to hear."""

    @property
    def publishes(self) -> Iterator[str]:
        """The types, by UUID, that the client asked to publish, and those that it may."""
        return chain(self.advertised, *self.adverts.values())

    @property
    def receives(self) -> Iterator[str]:
        """The types, by UUID, of which something may have to be sent, for the first time or again."""
        return chain.from_iterable(each.granted for each in chain(self.subscriptions.values(), self.replays))

    @property
    def replays(self) -> Iterator[Playback]:
        """The past that the client is sent, and that of which something may have to be sent again."""
        return chain(self.playbacks.values(), self.played)

    def object_to(self, taken: Taken) -> None:
        """Remember what was said of a bundle: the answer may be lost, and the bundle sent again."""
        self.objections[taken.number] = taken
        if len(self.objections) > MAX_OBJECTIONS:
            del self.objections[next(iter(self.objections))]

    def forget_past(self) -> None:
        """Count no longer what was sent of replays that are over and received."""
        live = {each.number for each in chain(self.subscriptions.values(), self.replays)}
        for number in self.past_sent.keys() - live:
            del self.past_sent[number]
            self.sending.pop(number, None)

    def may_publish(self, type_: str) -> Enforcement | None:
        for granted in self.adverts.values():
            if type_ in granted:
                return granted[type_]
        return None


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
        self.withheld = self.forged = self.replayed = self.untrusted = self.overflowed = 0
        self.refused: Counter[str] = Counter()
        """Events of clients that were not published, by why."""
        self.gaps: Counter[GapReason] = Counter()
        """Gaps that subscribers were told of, by reason."""
        self.calls_refused: Counter[str] = Counter()
        """Calls of clients that were refused, by why."""
        self.skewed = self.restricted = self.unreadable = self.verified = self.unverified = 0
        self.lost = 0
        """Parcels of other brokers that were discarded before they were read here."""


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
    vault: EventCipher = field(default_factory=lambda: EventCipher(KeyRing()))
    recorder: Recorder | None = None
    """Keeps what is published, before it is passed on; None if there is no history."""
    history: str = ""
    """The name of the history that it shares with other brokers; empty if it has its own."""
    disclosures: Disclosures | None = None
    """Is told of everything that is sent under rules."""
    clock: StreamClock = field(default_factory=StreamClock)
    """What is known of the clock by which parcels are dated."""
    policies: OwnerPolicies = field(init=False)
    """What owners say about their types."""
    on_policy: list[Callable[[str], None]] = field(default_factory=list)
    """Called with each type about which its owner says something else."""
    rules: Rulebook = field(init=False)

    def __post_init__(self) -> None:
        self.policies = OwnerPolicies(self.catalogue, self._tell_policy)
        self.rules = Rulebook(self.catalogue, self.identity.derive("rules"))

    def _tell_policy(self, type_: str) -> None:
        for tell in self.on_policy:
            tell(type_)

    def vouch(self, proof: Proof, digests: bytes) -> Proof:
        """A proof of this broker's own, as of now, for what it has changed or had to keep."""
        own = Proof(proof.credential, self.now(), self.nonce(), b"", self.identity.public.raw)
        return own.sign(self.identity, digests)

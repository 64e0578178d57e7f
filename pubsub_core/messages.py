"""What travels between clients and brokers. New fields come last and have defaults."""

from __future__ import annotations

import enum
from typing import Self, TypeAlias

import msgspec

from authz.crypto import Seal
from authz.errors import UNREADABLE
from bus.wire import Unpack
from pubsub_core.errors import InvalidEvent
from pubsub_core.events import Event, Missed, Proof, decode

PLACE_BITS = 20
"""The bits of a place that say where in its parcel an event stands."""


class Connect(msgspec.Struct, frozen=True, tag_field="verb", tag="connect"):
    """Begin a session, or take one up again where it was left."""

    credential: bytes
    inbox: str
    """Where the broker sends what it has for the client."""
    chains: tuple[bytes, ...] = ()
    """Capability chains that the client may need."""
    resume: str = ""
    received: int = 0
    """Up to which number the client has received everything, if it resumes."""


class Disconnect(msgspec.Struct, frozen=True, tag_field="verb", tag="disconnect"):
    """End the session."""


class AddType(msgspec.Struct, frozen=True, tag_field="verb", tag="add-type"):
    signed: bytes


class RemoveType(msgspec.Struct, frozen=True, tag_field="verb", tag="remove-type"):
    name: str
    word: bytes = b""
    """The owner's, for other brokers to see too: `type_signature.removal` makes it."""


class Describe(msgspec.Struct, frozen=True, tag_field="verb", tag="describe"):
    """Ask for the definition of a version, by UUID."""

    version: str


class Advertise(msgspec.Struct, frozen=True, tag_field="verb", tag="advertise"):
    type: str


class Unadvertise(msgspec.Struct, frozen=True, tag_field="verb", tag="unadvertise"):
    type: str


class Unfinished(msgspec.Struct, frozen=True, array_like=True):
    """A replay that a rule had started, and that was not over when the session was lost."""

    ticket: bytes
    start: float | None = None
    """What is missing begins with this time; None: nothing of it has come."""


class Subscribe(msgspec.Struct, frozen=True, tag_field="verb", tag="subscribe"):
    """Ask for the events of a type and its sub-types that pass the filter. `number` is the client's name for it."""

    number: int
    type: str
    filter: str = ""
    start: float | None = None
    """If past events are wanted too: from when on, in Unix seconds."""
    unfinished: tuple[Unfinished, ...] = ()
    """What rules were sending in an earlier session."""
    durable: str = ""
    """The name of a subscription that outlasts sessions, which begins where it was left."""
    lost: str = ""
    """The broker that the client has just lost: it has the durable subscription no longer."""
    after: int | None = None
    """To outlast its broker without a name: the number in the stream after which to go on, or -1 to begin now."""


class Replay(msgspec.Struct, frozen=True, tag_field="verb", tag="replay"):
    """Ask for the past events of a type and its sub-types that pass the filter, up to the present."""

    number: int
    type: str
    filter: str = ""
    start: float | None = None
    end: float | None = None
    """Up to but not including this time."""
    during: str = ""
    """Only what happened while this fluent held."""
    not_during: str = ""


class Unsubscribe(msgspec.Struct, frozen=True, tag_field="verb", tag="unsubscribe"):
    number: int


class Inspect(msgspec.Struct, frozen=True, tag_field="verb", tag="inspect"):
    """Ask which restrictions apply to the session's subscriptions and advertisements of a type."""

    type: str


class ListDurables(msgspec.Struct, frozen=True, tag_field="verb", tag="list-durables"):
    """Ask for the client's own durable subscriptions."""


class DeleteDurable(msgspec.Struct, frozen=True, tag_field="verb", tag="delete-durable"):
    """Delete a durable subscription, with its position."""

    name: str


class Survey(msgspec.Struct, frozen=True, tag_field="verb", tag="survey"):
    """Ask what could come of a subscription, and how far interest in a type extends."""

    type: str
    filter: str = ""


class Extent(msgspec.Struct, frozen=True):
    """What could come of a subscription, and how far interest in its type extends."""

    satisfiable: bool
    """Whether any event could pass its filter and everything that restricts the client."""
    complete: bool = False
    """Whether every event that passes the filter could come, in some form."""
    missing: tuple[str, ...] = ()
    """The type and its sub-types of which nothing can come, by name, each with the reason."""
    brokers: int = 0
    """Other brokers whose clients want events of the type, or of its sub-types."""
    subscriptions: int = 0
    """Subscriptions of this broker's clients to them."""
    publishers: int = 0
    """Clients of this broker that publish them."""


Call: TypeAlias = (
    Connect
    | Disconnect
    | AddType
    | RemoveType
    | Describe
    | Advertise
    | Unadvertise
    | Subscribe
    | Replay
    | Unsubscribe
    | Survey
    | Inspect
    | ListDurables
    | DeleteDurable
)


class SignedCall(msgspec.Struct, frozen=True):
    """A call as its client signs it: for one broker, at a time, once, and on one channel."""

    call: Call
    broker: str
    time: float
    nonce: bytes
    session: str = ""
    channel: bytes = b""
    """The binding of the channel it goes by."""


CALL = Seal("event service call", SignedCall)
WELCOME = b"authfabric broker welcome 1\0"
"""Goes before the nonce that a broker signs to prove its key."""


class Durable(msgspec.Struct, frozen=True):
    """A durable subscription, as its record says."""

    name: str
    type: str
    """By name."""
    filter: str
    broker: str
    """The broker that delivers it at the moment; empty if nobody reads it."""
    made: float
    """When it was made, in Unix seconds."""
    acknowledged: float
    """When something of it was last acknowledged, in Unix seconds."""
    position: int
    """The number in the stream of the first parcel of which not everything is acknowledged."""


class Answer(msgspec.Struct, frozen=True):
    """What a broker says to a call. Without a problem, it was done."""

    problem: str = ""
    fault: str = ""
    """What kind of problem: `refused`, `invalid`, `unknown`, `lost`, `failed`, `durable` or `elsewhere`."""
    session: str = ""
    definitions: tuple[bytes, ...] = ()
    """Signed definitions, each after those it builds on; the one asked about comes last."""
    restrictions: tuple[str, ...] = ()
    interested: bool = False
    broker: str = ""
    """The broker's key."""
    proof: bytes = b""
    """The broker's signature over the nonce of the call that began the session."""
    vouches: tuple[bytes, ...] = ()
    """Chains of vouches from the owner of the type asked about, and from the client's domain, to the broker."""
    host: str = ""
    """The broker that has the durable subscription asked for, if it is another."""
    position: int = 0
    """The number in the stream after which a subscription begins that outlasts its broker."""
    durables: tuple[Durable, ...] = ()
    extent: Extent | None = None


class BrokerKey(msgspec.Struct, frozen=True):
    """A broker's half of a channel, drawn for a client's; signed by the broker."""

    broker: str
    exchange: bytes
    client: bytes
    """The client's half."""


BROKER_KEY = Seal("broker exchange key", BrokerKey)


class Bundle(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Events that a publisher sends together, numbered within its session from 1 on."""

    session: str
    number: int
    proof: Proof
    events: list[msgspec.Raw]
    id: bytes = b""
    """The same for the same events, to whichever broker they are sent, and random otherwise."""
    runs: list[int] = []
    """How many events of one type follow each other, again and again; empty if they are all of one."""

    @classmethod
    def encoded(
        cls, session: str, number: int, proof: Proof, events: bytes, id_: bytes, runs: list[int]
    ) -> Self:
        """One to be sent, whose events are encoded already, as an array."""
        return cls(session, number, proof, msgspec.Raw(events), id_, runs)  # type: ignore[arg-type]


class Taken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a bundle. Events that are not named in `refused` were accepted."""

    number: int
    refused: list[tuple[int, str, str]] = []
    """Places in the bundle, with the attribute at fault and the problem."""
    problem: str = ""
    """Why the bundle as a whole was not taken."""
    expected: int = 0
    """The number that should have come, if this one came out of order."""
    unkept: bool = False
    """Whether the problem is that it cannot be kept in the history at the moment."""
    keyless: bool = False
    """Whether the first refusal is for want of keys."""
    signed: float = 0.0
    """When the copy of the bundle was signed that is not believed, if that is the problem."""


class Received(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A client's acknowledgement of everything up to a number."""

    session: str
    number: int
    past: dict[int, int] = {}
    """How many past events it has read, by the numbers of the subscriptions that they are for."""
    acked: dict[int, list[int]] = {}
    """The places of events that it acknowledges, by the numbers of the durable subscriptions that they are for."""


class Tense(enum.IntEnum):
    """Which events are sent."""

    PRESENT = 0
    PAST = 1
    """Past ones that were asked for."""
    AGAIN = 2
    """Past ones that rules send: the client may have had them before."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event for a client, or a notice about events."""

    number: int
    """The number of the subscription that it is for."""
    raw: msgspec.Raw
    place: int = 0
    """Where it stands in the stream, for a subscription that outlasts its broker; see `place_of`."""


def place_of(parcel: int, index: int) -> int:
    """Where an event stands in the stream: in which parcel, by its number, and where in that."""
    return parcel << PLACE_BITS | index


def parcel_of(place: int) -> int:
    """The number of the parcel that has the event at a place."""
    return place >> PLACE_BITS


class Delivery(msgspec.Struct, frozen=True, array_like=True, gc=False, tag_field="post", tag="d"):
    """Events for a client; None where one was withheld after all."""

    first: int
    items: list[Entry | None]
    tense: Tense = Tense.PRESENT
    """Of past events, `Ended` comes after the last for each subscription."""

    @classmethod
    def encoded(cls, first: int, items: bytes, tense: Tense) -> Self:
        """One to be sent, whose items are encoded already."""
        return cls(first, msgspec.Raw(items), tense)  # type: ignore[arg-type]


class Ended(msgspec.Struct, frozen=True, tag_field="word", tag="ended"):
    """There are no more past events for a subscription."""

    refused: str = ""
    """Why they may no longer be seen, if that is the reason."""
    missing: tuple[str, ...] = ()
    """What should have come and could not be had."""
    ticket: bytes = b""
    """That of the replay that is over, if a rule had started it."""
    unkept: tuple[str, ...] = ()
    """Brokers without a history: of what was published there, nothing past can be had."""


class Sent(msgspec.Struct, frozen=True, tag_field="word", tag="sent"):
    """What follows for a subscription, of what rules send, is of the replay with this ticket."""

    ticket: bytes


class Interest(msgspec.Struct, frozen=True, array_like=True, tag_field="post", tag="i"):
    """Whether anybody wants the events of a type that the client has advertised."""

    type: str
    wanted: bool


class Closed(msgspec.Struct, frozen=True, array_like=True, tag_field="post", tag="c"):
    """The broker has ended the session."""

    problem: str


class Drained(msgspec.Struct, frozen=True, array_like=True, tag_field="post", tag="m"):
    """The broker is about to end: the client goes on at another, if it knows one."""


class Post(msgspec.Struct, frozen=True):
    """The box around what a broker sends a client."""

    content: Delivery | Interest | Closed | Drained


Word: TypeAlias = Ended | Sent | Missed
"""What is delivered among events, besides events."""
_word: msgspec.msgpack.Decoder[Word] = msgspec.msgpack.Decoder(Word)


def decode_item(data: msgspec.Raw) -> Event | Word:
    """An event, or a notice of a gap or an end. Raises InvalidEvent."""
    try:
        return decode(data)
    except InvalidEvent:
        try:
            return _word.decode(data)
        except UNREADABLE:
            pass
        raise


unpack_answer = Unpack(Answer)
unpack_bundle = Unpack(Bundle)
unpack_taken = Unpack(Taken)
unpack_received = Unpack(Received)
unpack_post = Unpack(Post)

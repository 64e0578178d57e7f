"""Brokers without a network: what one says the others hear, as far as there is a line between them."""

from __future__ import annotations

from collections import Counter, deque
from itertools import count

import msgspec

from authz import Identity
from authz.predicate import TRUE
from authz.predicate.filter import parse_filter
from pubsub_core.binding import bind_filter
from pubsub_core.broker import Broker
from pubsub_core.catalogue import Catalogue
from pubsub_core.credential import Credential, Credentials, issue
from pubsub_core.enforcement import Enforcement
from pubsub_core.event import Event, encode
from pubsub_core.links import Links
from pubsub_core.messages import Bundle, Delivery, Taken, unpack_carried, unpack_numbered, unpack_post
from pubsub_core.proof import Proof, Scrutiny, all_digests
from pubsub_core.restriction import UNRESTRICTED
from pubsub_core.rights import Holder
from pubsub_core.session import Session, Setting
from pubsub_core.switchboard import Subscription
from pubsub_core.trust import ALL, Web, vouch
from pubsub_core.type_signature import SignedType
from tests.pubsub_core.kinds import MET, NOW, PITO, sighting

KIND = sighting()
SIGNED = SignedType.sign(KIND, PITO)
SPEED = next(each.id for each in KIND.attributes if each.name == "speed")
NAMES = {each.name: each for each in KIND.attributes}
CAMERA = Identity.from_seed(b"c" * 32)


class Net:
    """Brokers that hear each other, unless a line between two of them is cut."""

    def __init__(self) -> None:
        self.now = NOW
        self.links: dict[str, Links] = {}
        self.brokers: dict[str, Broker] = {}
        self.webs: dict[str, Web] = {}
        self.cut: set[tuple[str, str]] = set()
        self.log: list[tuple[str, str, bytes]] = []
        self._nonces = count(1)
        self._numbers = count(1)
        self._waiting: deque[tuple[str, str, bytes]] = deque()

    def add(
        self, name: str, *, by: Identity | None = PITO, owners=(), types=(SIGNED,), neighbours=()
    ) -> Broker:
        identity = Identity.generate()
        catalogue = Catalogue()
        for each in types:
            catalogue.accept(each, NOW)
        setting = Setting(
            name, "met", identity, catalogue, Credentials({"met": {MET.public}}),
            lambda *sent: self._send(name, *sent), self._clock, self._nonce, Scrutiny(1.0, lambda: 0.0),
        )  # fmt: skip
        web = self.webs[name] = Web()
        if by is not None:
            web.pin(vouch(identity.public, [ALL], self.now + 1000, by))
        self.brokers[name] = Broker(setting)
        self.links[name] = Links(self.brokers[name], web, owners, neighbours=neighbours)
        return self.brokers[name]

    def _clock(self) -> float:
        """No two moments are the same."""
        self.now += 1e-6
        return self.now

    def _nonce(self) -> bytes:
        return next(self._nonces).to_bytes(16, "big")

    def _send(self, sender: str, subject: str, data: bytes) -> None:
        self.log.append((sender, subject, data))
        idle = not self._waiting
        self._waiting.append((sender, subject, data))
        while idle and self._waiting:
            self._arrive(*self._waiting[0])
            self._waiting.popleft()

    def _arrive(self, sender: str, subject: str, data: bytes) -> None:
        *_, what = subject.split(".")
        for name in tuple(self.links):
            if (
                name != sender
                and (sender, name) not in self.cut
                and (".all." in subject or f".to.{name}." in subject)
            ):
                self.hear(name, what, data)

    def hear(self, name: str, what: str, data: bytes) -> None:
        links = self.links[name]
        if what == "events":
            self.brokers[name].hear(unpack_numbered(data))
        elif what == "carried":
            links.hear_carried(unpack_carried(data))
        else:
            {"hello": links.hear_hello, "note": links.hear_note}[what](data)

    def pass_(self, seconds: float = 1.0, *names: str) -> None:
        """Let time go by, and everybody say hello."""
        self.now += seconds
        for name in names or tuple(self.links):
            self.links[name].tick()

    def want(self, name: str) -> Subscription:
        subscription = Subscription("s", 1, KIND.id, "")
        self.brokers[name].switchboard.connect(subscription, {KIND.id: (Enforcement(UNRESTRICTED), TRUE)})
        self.links[name].notes.announce()
        return subscription

    def serves(self, name: str) -> set[str]:
        """Those whom a broker would send an event of the type."""
        peers = self.brokers[name].peers.values()
        return {each.name for each in peers if KIND.id in each.served}

    def isolate(self, name: str) -> None:
        """Let a broker neither hear nor be heard."""
        self.cut |= {pair for other in self.links for pair in ((name, other), (other, name))}

    def subscribe(self, name: str, filter_: str = "") -> None:
        """A client of a broker wants what passes the filter, and all others are told."""
        session = self._session(name)
        number = len(session.subscriptions) + 1
        subscription = session.subscriptions[number] = Subscription(name, number, KIND.id, filter_)
        asked = bind_filter(parse_filter(filter_), NAMES)
        granted = {KIND.id: (Enforcement(UNRESTRICTED), asked)}
        self.brokers[name].switchboard.connect(subscription, granted)
        self.links[name].notes.announce()

    def publish(self, name: str, *speeds: float) -> None:
        """A client of a broker publishes sightings, together."""
        sequence = next(self._numbers)
        self.publish_events(
            name,
            [
                Event(KIND.id, KIND.version, CAMERA.public.raw, self.now, sequence, {SPEED: speed})
                for speed in speeds
            ],
        )

    def publish_events(self, name: str, events: list[Event]) -> None:
        session = self._session(name)
        raws = [msgspec.Raw(encode(each)) for each in events]
        proof = Proof(session.credential, self.now, self._nonce()).sign(CAMERA, all_digests(raws))
        answers: list[Taken] = []
        self.brokers[name].publish(Bundle(name, session.published + 1, proof, raws), answers.append)
        assert answers == [Taken(session.published)]

    def seen(self, name: str) -> Counter[tuple[int, float]]:
        """How often a broker's client was sent each speed, by the number of the subscription."""
        posts = [
            unpack_post(data).content for at, to, data in self.log if at == name and to == f"inbox.{name}"
        ]
        items = [item for post in posts if isinstance(post, Delivery) for item in post.items if item]
        return Counter((n, msgspec.msgpack.decode(raw, type=Event).attributes[SPEED]) for n, raw in items)

    def _session(self, name: str) -> Session:
        sessions = self.brokers[name].sessions
        if name not in sessions:
            credential = Credential(str(CAMERA.public), "camera", "met", NOW + 5000)
            given = issue(credential, MET)
            session = Session(name, CAMERA.public, Holder(credential), given, f"inbox.{name}", self.now)
            session.adverts[KIND.id] = {KIND.id: Enforcement(UNRESTRICTED)}
            sessions[name] = session
        return sessions[name]


def net(*names: str) -> Net:
    made = Net()
    for name in names:
        made.add(name)
    made.pass_()
    return made

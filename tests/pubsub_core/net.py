"""Brokers without a network: each hears the records of all others, and reads one stream, unless it is cut off."""

from __future__ import annotations

from collections import Counter
from itertools import count

import msgspec

from authz import Identity
from authz.predicate.filter import parse_filter
from bus.stores import Acknowledgement
from bus.wire import subjects
from pubsub_core.access.enforcement import Enforcement
from pubsub_core.access.restriction import UNRESTRICTED
from pubsub_core.access.rights import Holder
from pubsub_core.broker.core import Broker
from pubsub_core.delivery.session import Session, Setting
from pubsub_core.delivery.subscription_table import Subscription
from pubsub_core.events.batch_signature import Proof, Scrutiny, all_digests
from pubsub_core.events.event import Event, encode
from pubsub_core.events.gap import Missed
from pubsub_core.messages import Bundle, Delivery, Taken, decode_item, unpack_post
from pubsub_core.trust.broker_trust import Web
from pubsub_core.trust.credential import Credential, Credentials, issue
from pubsub_core.trust.vouches import ALL, vouch
from pubsub_core.types.filter_binding import bind_filter
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.kinds import MET, NOW, PITO, sighting

KIND = sighting()
SIGNED = SignedType.sign(KIND, PITO)
SPEED = next(each.id for each in KIND.attributes if each.name == "speed")
NAMES = {each.name: each for each in KIND.attributes}
CAMERA = Identity.from_seed(b"c" * 32)


class Net:
    """Brokers that hear each other, but for those that are away."""

    def __init__(self) -> None:
        self.now = NOW
        self.brokers: dict[str, Broker] = {}
        self.webs: dict[str, Web] = {}
        self.away: set[str] = set()
        """Who neither hears nor is heard."""
        self.kept: dict[str, bytes] = {}
        """The newest of each record."""
        self.stream: list[tuple[str, str, float, bytes]] = []
        """Every parcel, with its id and when it was stored."""
        self._read: Counter[str] = Counter()
        self.log: list[tuple[str, str, bytes]] = []
        self._nonces = count(1)
        self._numbers = count(1)

    def add(
        self,
        name: str,
        *,
        by: Identity | None = PITO,
        owners=(),
        types=(SIGNED,),
        domain="met",
        identity=None,
    ) -> Broker:
        identity = identity or Identity.generate()
        catalogue = Catalogue()
        for each in types:
            catalogue.accept(each, NOW)
        setting = Setting(
            name, domain, identity, catalogue, Credentials({"met": {MET.public}}),
            lambda *sent: self._send(name, *sent), self._clock, self._nonce, Scrutiny(1.0, lambda: 0.0),
        )  # fmt: skip
        web = self.webs[name] = Web()
        if by is not None:
            web.pin(vouch(identity.public, [ALL], self.now + 1000, by))
        broker = self.brokers[name] = Broker(setting, web, self._publish, name, owners)
        for subject, data in tuple(self.kept.items()):
            broker.presence.hear(subject, data, stored=True)
        self._read[name] = len(self.stream)
        broker.presence.start()
        return broker

    def _clock(self) -> float:
        """No two moments are the same."""
        self.now += 1e-6
        return self.now

    def _nonce(self) -> bytes:
        return next(self._nonces).to_bytes(16, "big")

    def _send(self, sender: str, subject: str, data: bytes) -> None:
        self.log.append((sender, subject, data))
        if ".brokers." in subject and sender not in self.away:
            self.kept[subject] = data
            for name, broker in tuple(self.brokers.items()):
                if name != sender and name not in self.away:
                    broker.presence.hear(subject, data)

    def _publish(self, subject, id_, make, done) -> None:
        known = id_ in {each[1] for each in self.stream}
        if not known:
            self.stream.append((subject, id_, self.now, make()))
        done(Acknowledgement.KNOWN if known else Acknowledgement.STORED)
        self.read()

    def read(self) -> None:
        """Have everybody who is there read the stream."""
        for name, broker in self.brokers.items():
            while name not in self.away and self._read[name] < len(self.stream) and broker.takes:
                subject, id_, stored, data = self.stream[self._read[name]]
                self._read[name] += 1
                if (
                    not broker.sending.is_own(id_)
                    and subjects.parcel_place(subject).type in broker.subscriptions.wants()
                ):
                    broker.receive(self._read[name], subject, stored, data)

    def pass_(self, seconds: float = 1.0, *names: str) -> None:
        """Let time go by, and everybody do what is due."""
        self.now += seconds
        for name in names or tuple(self.brokers):
            self.brokers[name].presence.tick()
        self.read()

    def interested(self, name: str) -> bool:
        """Whether a broker knows that others want the type."""
        return self.brokers[name].subscriptions.wanted_elsewhere(KIND.id)

    def knows(self, name: str) -> set[str]:
        """Those who are there, by what a broker knows."""
        return set(self.brokers[name].presence.peers)

    def trusts(self, name: str) -> set[str]:
        """Those of them that it trusts with the type."""
        return {each.name for each in self.brokers[name].presence.peers.values() if KIND.id in each.carries}

    def subscribe(self, name: str, filter_: str = "") -> None:
        """A client of a broker wants what passes the filter, and all others are told."""
        session, broker = self._session(name), self.brokers[name]
        number = len(session.subscriptions) + 1
        subscription = session.subscriptions[number] = Subscription(name, number, KIND.id, filter_)
        asked = bind_filter(parse_filter(filter_), NAMES)
        granted = {KIND.id: (Enforcement(UNRESTRICTED), asked)}
        broker.subscriptions.connect(subscription, granted)
        broker.subscriptions.wants()
        broker.interest.apply(broker.subscriptions.version)

    def unsubscribe(self, name: str) -> None:
        """The client of a broker wants nothing any more, and all others are told."""
        subscriptions, broker = self._session(name).subscriptions, self.brokers[name]
        for number in list(subscriptions):
            broker.subscriptions.disconnect(subscriptions.pop(number))
        broker.subscriptions.wants()
        broker.interest.apply(broker.subscriptions.version)

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
        return Counter((n, item.attributes[SPEED]) for n, item in self._got(name) if isinstance(item, Event))

    def missed(self, name: str) -> list[str]:
        """Why a broker's client was told that events are missing."""
        return [item.detail for _, item in self._got(name) if isinstance(item, Missed)]

    def _got(self, name: str) -> list[tuple[int, object]]:
        posts = [
            unpack_post(data).content for at, to, data in self.log if at == name and to == f"inbox.{name}"
        ]
        items = [item for post in posts if isinstance(post, Delivery) for item in post.items if item]
        return [(item.number, decode_item(item.raw)) for item in items]

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

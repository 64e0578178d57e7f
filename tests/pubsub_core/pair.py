"""Two brokers without a network: what one sends the other can be looked at, altered, or kept."""

from __future__ import annotations

from itertools import count

import msgspec

from authz import Identity
from authz.predicate.filter import parse_filter
from pubsub_core.binding import bind_filter
from pubsub_core.broker import Broker
from pubsub_core.credential import Credential, Credentials, issue
from pubsub_core.enforcement import Enforcement
from pubsub_core.event import Event, encode
from pubsub_core.messages import Bundle, Delivery, Parcel, Taken, unpack_numbered, unpack_parcel, unpack_post
from pubsub_core.proof import Proof, Scrutiny, all_digests
from pubsub_core.restriction import UNRESTRICTED, Restriction
from pubsub_core.rights import Holder
from pubsub_core.session import Peer, Session, Setting
from pubsub_core.switchboard import Subscription
from tests.pubsub_core.kinds import MET, catalogue_of, sighting

KIND = sighting()
CATALOGUE = catalogue_of(KIND)
NAMES = CATALOGUE.names(KIND.version)


class Pair:
    """`home`, where the publisher is, and `away`, where the subscriber is."""

    def __init__(self, share: float = 1.0, restriction: Restriction = UNRESTRICTED) -> None:
        self.now = 1000.0
        self._nonces = count(1)
        self.sent: list[tuple[str, bytes]] = []
        self.home, self.away = self._broker("home", share), self._broker("away", share)
        self._introduce(self.home, self.away)
        self._introduce(self.away, self.home)
        self.publisher = Identity.from_seed(b"c" * 32)
        credential = Credential(str(self.publisher.public), "camera", "met", self.now + 500)
        self.credential = issue(credential, MET)
        self.session = self._session(self.home, "pub")
        self.session.adverts[KIND.id] = {KIND.id: Enforcement(restriction)}
        self._number = self._sequence = 0

    def _broker(self, name: str, share: float) -> Broker:
        identity = Identity.generate()
        return Broker(
            Setting(
                name, "met", identity, CATALOGUE, Credentials({"met": {MET.public}}),
                lambda *sent: self.sent.append(sent), lambda: self.now, self.nonce, Scrutiny(share, lambda: 0.5),
            )
        )  # fmt: skip

    def nonce(self) -> bytes:
        return next(self._nonces).to_bytes(16, "big")

    def _introduce(self, broker: Broker, other: Broker) -> None:
        setting = other.setting
        key = str(setting.identity.public)
        broker.peers[setting.name] = Peer(
            setting.name,
            "met",
            key,
            self.now,
            f"to.{setting.name}",
            "cached",
            carries={KIND.id},
            secret=b"s",
            direct=True,
        )

    def _session(self, broker: Broker, token: str) -> Session:
        holder = Holder(Credential(str(self.publisher.public), "camera", "met", 0.0))
        session = Session(token, self.publisher.public, holder, self.credential, f"inbox.{token}", self.now)
        broker.sessions[token] = session
        return session

    def subscribe(self, filter_: str = "", restriction: Restriction = UNRESTRICTED) -> Subscription:
        """A client at the other broker, whose wants are known at the publisher's."""
        session = self.away.sessions.get("sub") or self._session(self.away, "sub")
        number = len(session.subscriptions) + 1
        subscription = session.subscriptions[number] = Subscription("sub", number, KIND.id, filter_)
        self.grant(subscription, restriction)
        return subscription

    def grant(self, subscription: Subscription, restriction: Restriction) -> None:
        asked = bind_filter(parse_filter(subscription.filter), NAMES)
        self.away.switchboard.connect(subscription, {KIND.id: (Enforcement(restriction), asked)})
        self.home.switchboard.hear("away", self.away.switchboard.wants())

    def bundle(self, *events: dict[str, object], **more) -> Bundle:
        raws = []
        for named in events:
            self._sequence += 1
            values = {NAMES[name].id: value for name, value in named.items()}
            event = Event(KIND.id, KIND.version, self.publisher.public.raw, self.now, self._sequence, values)
            raws.append(encode(event))
        return self.signed([msgspec.Raw(raw) for raw in raws], **more)

    def signed(self, raws: list[msgspec.Raw], signer: Identity | None = None) -> Bundle:
        self._number += 1
        proof = Proof(self.credential, self.now, self.nonce()).sign(
            signer or self.publisher, all_digests(raws)
        )
        return Bundle("pub", self._number, proof, raws)

    def publish(self, bundle: Bundle) -> Taken:
        answers: list[Taken] = []
        self.home.publish(bundle, answers.append)
        return answers[0]

    def parcels(self) -> list[Parcel]:
        """What the publisher's broker has sent the other since this was last asked."""
        lines = [unpack_numbered(data) for subject, data in self.sent if subject == "to.away"]
        found = [unpack_parcel(each.data) for each in lines]
        self.sent = [each for each in self.sent if each[0] != "to.away"]
        return found

    def carry(self) -> None:
        for parcel in self.parcels():
            self.away.receive(parcel)

    def seen(self) -> list[tuple[int, dict[str, object]]]:
        """What the subscriber has got, with the number of the subscription, by name."""
        ids = {each.id: name for name, each in NAMES.items()}
        posts = [unpack_post(data).content for subject, data in self.sent if subject == "inbox.sub"]
        items = [
            item for post in posts if isinstance(post, Delivery) for item in post.items if item is not None
        ]
        decoded = [(number, msgspec.msgpack.decode(raw, type=Event)) for number, raw in items]
        return [(n, {ids[id_]: value for id_, value in e.attributes.items()}) for n, e in decoded]

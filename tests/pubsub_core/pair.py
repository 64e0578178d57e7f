"""Two brokers without a network: what one publishes for the other can be looked at, altered, or kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count

import msgspec

from authz import Identity
from authz.predicate.filter import parse_filter
from bus.stores import Acknowledgement
from pubsub_core.access.enforcement import Enforcement
from pubsub_core.access.restriction import UNRESTRICTED, Restriction
from pubsub_core.access.rights import Holder
from pubsub_core.broker.core import Broker
from pubsub_core.carriage.parcel import Parcel, read_parcel, sign_parcel
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
from tests.pubsub_core.kinds import MET, PITO, catalogue_of, sighting

KIND = sighting()
CATALOGUE = catalogue_of(KIND)
NAMES = CATALOGUE.names(KIND.version)


class Pair:
    """`home`, where the publisher is, and `away`, where the subscriber is."""

    def __init__(self, share: float = 1.0, restriction: Restriction = UNRESTRICTED) -> None:
        self.now = 1000.0
        self._nonces = count(1)
        self.sent: list[tuple[str, bytes]] = []
        self.stream: deque[tuple[str, bytes]] = deque()
        """What was published, and not read yet."""
        self._ids: set[str] = set()
        self._numbers = count(1)
        identities = [Identity.generate(), Identity.generate()]
        self.words = [vouch(each.public, [ALL], self.now + 5000, PITO) for each in identities]
        self.home, self.away = (
            self._broker(name, each, share) for name, each in zip(("home", "away"), identities, strict=True)
        )
        self.away.reading = self
        self.publisher = Identity.from_seed(b"c" * 32)
        credential = Credential(str(self.publisher.public), "camera", "met", self.now + 500)
        self.credential = issue(credential, MET)
        self.session = self._session(self.home, "pub")
        self.session.adverts[KIND.id] = {KIND.id: Enforcement(restriction)}
        self._number = self._sequence = 0

    def _broker(self, name: str, identity: Identity, share: float) -> Broker:
        web = Web()
        web.pin(*self.words)
        return Broker(
            Setting(
                name, "met", identity, CATALOGUE, Credentials({"met": {MET.public}}),
                lambda *sent: self.sent.append(sent), lambda: self.now, self.nonce, Scrutiny(share, lambda: 0.5),
            ),
            web,
            self._publish,
        )  # fmt: skip

    def _publish(self, subject, id_, make, done) -> None:
        known = id_ in self._ids
        if not known:
            self._ids.add(id_)
            self.stream.append((subject, make()))
        done(Acknowledgement.KNOWN if known else Acknowledgement.STORED)

    def nonce(self) -> bytes:
        return next(self._nonces).to_bytes(16, "big")

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
        self.away.subscriptions.connect(subscription, {KIND.id: (Enforcement(restriction), asked)})

    def bundle(self, *events: dict[str, object], **more) -> Bundle:
        raws = []
        for named in events:
            self._sequence += 1
            values = {NAMES[name].id: value for name, value in named.items()}
            event = Event(KIND.id, KIND.version, self.publisher.public.raw, self.now, self._sequence, values)
            raws.append(encode(event))
        return self.signed([msgspec.Raw(raw) for raw in raws], **more)

    def signed(
        self, raws: list[msgspec.Raw], signer: Identity | None = None, runs: Sequence[int] = ()
    ) -> Bundle:
        self._number += 1
        proof = Proof(self.credential, self.now, self.nonce()).sign(
            signer or self.publisher, all_digests(raws, runs)
        )
        return Bundle("pub", self._number, proof, raws, runs=list(runs))

    def publish(self, bundle: Bundle) -> Taken:
        answers: list[Taken] = []
        self.home.publish(bundle, answers.append)
        return answers[0]

    def parcels(self) -> list[Parcel]:
        """What the publisher's broker has published since this was last asked."""
        found, self.stream = [read_parcel(data).value for _, data in self.stream], deque()
        return found

    def receive(self, parcel: Parcel, signer: Identity | None = None, subject: str = "") -> None:
        """Have the other broker read a parcel, as somebody has signed it."""
        data = sign_parcel(parcel, signer or self.home.setting.identity)
        self.away.receive(next(self._numbers), subject or parcel.subject, self.now, data)

    def carry(self) -> None:
        """Have the other broker read what was published, as far as it takes it."""
        while self.stream and self.away.takes:
            self.away.receive(next(self._numbers), self.stream[0][0], self.now, self.stream.popleft()[1])

    @property
    def paused(self) -> bool:
        return bool(self.stream)

    def go_on(self) -> None:
        self.carry()

    def seen(self) -> list[tuple[int, dict[str, object]]]:
        """The events that the subscriber has got, with the number of the subscription, by name."""
        ids = {each.id: name for name, each in NAMES.items()}
        return [
            (number, {ids[id_]: value for id_, value in item.attributes.items()})
            for number, item in self._got()
            if isinstance(item, Event)
        ]

    def missed(self) -> list[Missed]:
        """The gaps that the subscriber was told of."""
        return [item for _, item in self._got() if isinstance(item, Missed)]

    def _got(self) -> list[tuple[int, object]]:
        posts = [unpack_post(data).content for subject, data in self.sent if subject == "inbox.sub"]
        items = [item for post in posts if isinstance(post, Delivery) for item in post.items]
        return [(item.number, decode_item(item.raw)) for item in items if item is not None]

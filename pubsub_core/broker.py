"""The broker: what becomes of events between a publisher and those who may see them. No I/O but `send`.

Invariants: an event is delivered only as the restriction in force at the moment it is sent to the client allows; while
the broker is held, because newer policies are known to exist, nothing is delivered or passed on, and nothing is lost.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from authz import PublicKey
from authz.agreement import AgreementKey
from authz.errors import AuthFabricError, InvalidSignature
from bus.envelope import pack
from bus.errors import BadMessage
from pubsub_core.errors import InvalidEvent, UnknownType
from pubsub_core.event import MAX_EVENT_BYTES, Event, Shape, decode, encode
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.line import Numbered
from pubsub_core.mail import Mail
from pubsub_core.messages import (
    Bundle,
    CachedParcel,
    Closed,
    Interest,
    Parcel,
    Taken,
    unpack_cached_parcel,
    unpack_parcel,
)
from pubsub_core.proof import Nonces, Proof, all_digests, check_places, digest
from pubsub_core.session import Counts, Item, Peer, Session, Setting
from pubsub_core.switchboard import Switchboard

MAX_HELD = 10_000
"""So many messages wait while the broker is held; those who send more are told to try again."""


class Broker:
    """Sessions of clients, other brokers, and the events between them."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.switchboard = Switchboard(int(setting.now() * 1000))
        self.sessions: dict[str, Session] = {}
        self.peers: dict[str, Peer] = {}
        self.silent: set[str] = set()
        """The types whose owners are out of reach."""
        self.counts = Counts()
        self._mail = Mail(setting, self.counts)
        self.agreement = AgreementKey.of(setting.identity)
        self.boot = int(setting.now() * 1000)
        """When it started: it counts what it sends from there."""
        self.ask_again: Callable[[Peer], None] = lambda peer: None
        """Has another broker send again what is missing on the line from there."""
        self._nonces = Nonces()
        self._shapes: dict[str, tuple[str, Shape]] = {}
        self._held = 0
        self._waiting: deque[Callable[[], object]] = deque()

    @property
    def held(self) -> bool:
        return self._held > 0

    def hold(self) -> None:
        """Deliver and pass on nothing, until `release` was called as often as this."""
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        if self.held:
            return
        waiting, self._waiting = self._waiting, deque()
        for work in waiting:
            work()
        for session in tuple(self.sessions.values()):
            self.flush(session)

    def publish(self, bundle: Bundle, answer: Callable[[Taken], None]) -> None:
        """Take what a client publishes, and say what became of it; while held, later."""
        session = self.sessions.get(bundle.session)
        if session is None:
            answer(Taken(bundle.number, problem="there is no such session"))
        elif not self.held:
            answer(self._publish(session, bundle))
        elif len(self._waiting) < MAX_HELD:
            self._waiting.append(lambda: self.publish(bundle, answer))

    def _publish(self, session: Session, bundle: Bundle) -> Taken:
        number, proof, now = bundle.number, bundle.proof, self.setting.now()
        session.heard = now
        if number <= session.published:
            return Taken(number)
        if number != session.published + 1:
            return Taken(number, problem="it came out of order", expected=session.published + 1)
        digests = all_digests(bundle.events)
        try:
            if proof.credential != session.credential or proof.by:
                raise InvalidSignature
            proof.verify(session.key, digests)
            if not self._nonces.use(proof.nonce, proof.time, now):
                raise InvalidSignature
        except InvalidSignature as error:
            self.counts.forged += 1
            return Taken(number, problem=str(error))
        session.published = number
        return self._admit_all(session, bundle, digests, now)

    def _admit_all(self, session: Session, bundle: Bundle, digests: bytes, now: float) -> Taken:
        refused: list[tuple[int, str, str]] = []
        passed: list[tuple[int, msgspec.Raw, Event]] = []
        changed = False
        for place, raw in enumerate(bundle.events):
            try:
                event = decode(raw)
                size = len(memoryview(raw))
                values = self._admit(session, event, size, now)
            except InvalidEvent as error:
                refused.append((place, error.attribute, error.problem))
                continue
            if values is None:
                self.counts.withheld += 1
                continue
            if values is not event.attributes:
                event = msgspec.structs.replace(event, attributes=dict(values))
                raw, changed = msgspec.Raw(encode(event)), True
            passed.append((place, raw, event))
        self.counts.refused += len(refused)
        self.counts.published += len(passed)
        proof = bundle.proof
        if changed:
            digests = all_digests(raw for _, raw, _ in passed)
            proof = self._vouch(proof, digests)
            passed = [(place, raw, event) for place, (_, raw, event) in enumerate(passed)]
        self._route(passed, proof, digests, len(digests) // 16)
        return Taken(bundle.number, refused)

    def _admit(self, session: Session, event: Event, size: int, now: float) -> Mapping[str, object] | None:
        """The values under which an event is published; None if it is withheld. Raises InvalidEvent."""
        if event.publisher != session.key.raw:
            raise InvalidEvent("publisher", "must be the key of whoever sends it")
        if size > MAX_EVENT_BYTES:
            raise InvalidEvent("event", f"must have at most {MAX_EVENT_BYTES} bytes")
        granted = session.may_publish(event.type)
        if granted is None:
            raise InvalidEvent("type", "must be one that was advertised, and that may be published")
        type_, shape = self._shape(event.version)
        if type_ != event.type:
            raise InvalidEvent("version", "must be one of the event's type")
        shape.check(event.attributes)
        values = granted.publish(event, size, now)
        lacking = self.setting.vault.lacks(event.type, values) if values is not None else None
        if lacking is not None or event.sealed is not None:
            attribute = shape.attributes.get(lacking or "")
            name = attribute.name if attribute is not None else "event"
            raise InvalidEvent(name, "cannot be published here: this broker holds no key for it")
        return values

    def _shape(self, version: str) -> tuple[str, Shape]:
        known = self._shapes.get(version)
        if known is None:
            try:
                definition = self.setting.catalogue.version(version)
            except UnknownType as error:
                raise InvalidEvent("version", str(error)) from None
            known = definition.id, Shape(self.setting.catalogue.attributes(version))
            self._shapes[version] = known
        return known

    def _vouch(self, proof: Proof, digests: bytes) -> Proof:
        """A proof of this broker's own for what it has changed."""
        setting = self.setting
        own = Proof(proof.credential, proof.time, setting.nonce(), b"", setting.identity.public.raw)
        return own.sign(setting.identity, digests)

    def _route(
        self, passed: list[tuple[int, msgspec.Raw, Event]], proof: Proof, digests: bytes, whole: int
    ) -> None:
        parcels: defaultdict[tuple[str, str], list[tuple[int, msgspec.Raw, Event]]] = defaultdict(list)
        remote, sealed = self.switchboard.remote, self.setting.vault.sealed
        for item in passed:
            event = item[2]
            for name in remote(event):
                parcels[name, event.type if event.type in sealed else ""].append(item)
        self._deliver((raw, event) for _, raw, event in passed)
        for (name, type_), items in parcels.items():
            peer = self.peers[name]
            if type_ and not self.setting.vault.equal(type_, peer.groups):
                self._send_sealed(peer, [event for _, _, event in items], proof)
                continue
            parcel = Parcel(self.setting.name, proof, [raw for _, raw, _ in items])
            if len(items) != whole:
                places = [place for place, _, _ in items]
                parcel = msgspec.structs.replace(parcel, digests=digests, places=places)
            self._send_parcel(peer, type_, parcel)

    def _send_sealed(self, peer: Peer, events: list[Event], proof: Proof) -> None:
        """Send a broker events of which it may not read everything, vouching for what they have become."""
        setting = self.setting
        columns = setting.vault.seal_many(events)
        if columns is not None:
            own = self._vouch(proof, digest(columns))
            parcel = Parcel(setting.name, own, [], columns=columns)
        else:  # a key ends among them
            sealed = [msgspec.Raw(encode(setting.vault.seal(event))) for event in events]
            parcel = Parcel(setting.name, self._vouch(proof, all_digests(sealed)), sealed)
        self._send_parcel(peer, "", parcel)
        self.counts.forwarded += len(events) - len(parcel.events)

    def _send_parcel(self, peer: Peer, type_: str, parcel: Parcel) -> None:
        """Send a parcel as it is, or, if it holds a sealed type's events in clear, sealed as a whole."""
        setting, data = self.setting, pack(parcel)
        if type_:
            link = f"{setting.name}>{peer.name}".encode()
            cached = setting.vault.cache(type_, setting.now(), link, data)
            data = pack(CachedParcel(setting.name, cached))
        self.send_on(peer, peer.outgoing.add(setting.name, self.boot, data, bool(type_)))
        self.counts.forwarded += len(parcel.events)

    def send_on(self, peer: Peer, message: Numbered) -> None:
        """Send a message on the line to another broker."""
        subject = peer.cached_subject if message.cached else peer.subject
        self.setting.send(subject, pack(message.tagged(peer.secret)))

    def hear(self, message: Numbered) -> None:
        """Take what comes on the line from another broker; ask for what is missing before it."""
        peer = self.peers.get(message.sender)
        if peer is None or not message.authentic(peer.secret):
            self.counts.untrusted += 1
            return
        self.handle(peer.incoming.take(message))
        if peer.incoming.lacks() and peer.asked != peer.incoming.next:
            self.ask_again(peer)

    def handle(self, messages: Iterable[Numbered]) -> None:
        """Take messages whose turn it is."""
        for message in messages:
            if message.cached:
                self.receive_cached(unpack_cached_parcel(message.data))
            else:
                self.receive(unpack_parcel(message.data))

    def receive_cached(self, parcel: CachedParcel) -> None:
        """Take what a broker with the same keys passes on in clear."""
        try:
            data = self.setting.vault.uncache(parcel.cached, f"{parcel.sender}>{self.setting.name}".encode())
            inner = unpack_parcel(data)
        except (CannotOpen, BadMessage):
            self.counts.forged += 1
            return
        if inner.sender == parcel.sender:
            self.receive(inner, trusted=True)

    def receive(self, parcel: Parcel, trusted: bool = False) -> None:
        """Take what another broker passes on; while held, later. `trusted` says that it came under a common seal."""
        if not self.held:
            self._receive(parcel, trusted)
        elif len(self._waiting) < MAX_HELD:
            self._waiting.append(partial(self.receive, parcel, trusted))
        else:
            self.counts.overflowed += len(parcel.events)

    def _receive(self, parcel: Parcel, trusted: bool) -> None:
        peer, proof, now = self.peers.get(parcel.sender), parcel.proof, self.setting.now()
        if peer is None:
            self.counts.untrusted += len(parcel.events)
            return
        # A bundle of several types may come in several parcels, so what is used up is the nonce with its first event.
        first = parcel.columns or b"".join(map(bytes, parcel.events[:1]))
        if not self._nonces.use(digest(proof.nonce + first), proof.time, now):
            self.counts.replayed += 1
            return
        scrutiny = self.setting.scrutiny
        publisher: bytes | None = None
        if scrutiny.wants(peer.name):
            try:
                publisher = self._verify(peer, parcel, now)
            except AuthFabricError:
                self.counts.forged += 1
                scrutiny.caught(peer.name)
                return
        self._deliver(self._accepted(peer, parcel, publisher, trusted))

    def _verify(self, peer: Peer, parcel: Parcel, now: float) -> bytes:
        """The publisher's key, if the proof holds. Raises InvalidSignature, UntrustedSigner or Refused."""
        proof = parcel.proof
        _, key = self.setting.credentials.open(proof.credential, now)
        signer = PublicKey(proof.by) if proof.by else key
        if proof.by and str(signer) != peer.key:
            raise InvalidSignature
        if parcel.digests:
            check_places(parcel.digests, parcel.places, parcel.events)
        whole = digest(parcel.columns) if parcel.columns else all_digests(parcel.events)
        proof.verify(signer, parcel.digests or whole)
        return key.raw

    def _accepted(
        self, peer: Peer, parcel: Parcel, publisher: bytes | None, trusted: bool
    ) -> Iterable[tuple[msgspec.Raw, Event]]:
        if parcel.columns:
            yield from self._accepted_columns(peer, parcel, publisher)
            return
        sealed = self.setting.vault.sealed
        for raw in parcel.events:
            try:
                event = decode(raw)
            except InvalidEvent:
                self.counts.forged += 1
                continue
            if event.type not in peer.carries:
                self.counts.untrusted += 1
            elif publisher is not None and event.publisher != publisher:
                self.counts.forged += 1
            elif event.sealed is not None or (event.type in sealed and not trusted):
                opened = self._opened(event)
                if opened is not None:
                    yield msgspec.Raw(encode(opened)), opened
            else:
                self.counts.received += 1
                yield raw, event

    def _accepted_columns(
        self, peer: Peer, parcel: Parcel, publisher: bytes | None
    ) -> Iterable[tuple[msgspec.Raw, Event]]:
        try:
            events = self.setting.vault.open_many(parcel.columns)
        except CannotOpen:
            self.counts.forged += 1
            return
        if events[0].type not in peer.carries:
            self.counts.untrusted += len(events)
            return
        for event in events:
            if publisher is not None and event.publisher != publisher:
                self.counts.forged += 1
            else:
                self.counts.received += 1
                yield msgspec.Raw(encode(event)), event

    def _opened(self, event: Event) -> Event | None:
        """An event with what can be read of it here; None if there is none, or it is not rightly sealed."""
        try:
            opened = self.setting.vault.open(event)
        except CannotOpen:
            self.counts.forged += 1
            return None
        self.counts.received += opened is not None
        return opened

    def _deliver(self, events: Iterable[tuple[msgspec.Raw, Event]]) -> None:
        """Put events into the outboxes of those they are for, and send what can be sent."""
        touched: dict[str, Session] = {}
        local, sessions, silent = self.switchboard.local, self.sessions, self.silent
        for raw, event in events:
            type_ = event.type
            if type_ in silent:
                self.counts.withheld += 1
                continue
            for subscription in local(event):
                session = sessions[subscription.session]
                session.outbox.put(Item(subscription, event, raw, subscription.granted[type_]))
                touched[session.token] = session
        for session in touched.values():
            self.flush(session)

    def flush(self, session: Session) -> None:
        """Send a client what it has room for, each event as its restriction now allows."""
        if not self.held:
            self._mail.flush(session)
        if session.outbox.full:
            self.counts.overflowed += session.outbox.waiting
            self.close(session, "the client does not read what it subscribed to")

    def resend(self, session: Session, received: int) -> None:
        """A client that lost its connection has everything up to this number: send what came after once more."""
        if self.held:
            self._waiting.append(partial(self.resend, session, received))
        else:
            self._mail.resend(session, received)

    def close(self, session: Session, problem: str = "") -> None:
        """End a session; with a problem, tell the client."""
        if self.sessions.pop(session.token, None) is None:
            return
        for subscription in session.subscriptions.values():
            self.switchboard.disconnect(subscription)
        if problem:
            self._mail.post(session, Closed(problem))

    def tell_interest(self, type_: str) -> None:
        """Tell those who publish a type whether anybody wants it."""
        wanted = self.switchboard.wanted(type_)
        for session in self.sessions.values():
            if any(type_ in granted for granted in session.adverts.values()):
                self._mail.post(session, Interest(type_, wanted))

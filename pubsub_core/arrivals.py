"""What comes from other brokers: verified as far as scrutiny asks, opened as far as keys allow, and taken once.

Invariant: what is accepted came from a broker trusted with its type, under a proof that was not used before; and if it
was verified, it was published by the holder of the credential that it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

import msgspec

from authz import PublicKey
from authz.errors import AuthFabricError, InvalidSignature
from bus.errors import BadMessage
from pubsub_core.errors import InvalidEvent
from pubsub_core.event import Event, decode, encode
from pubsub_core.keys.errors import CannotOpen, KeyAwaited
from pubsub_core.keys.steady import Message, open_box
from pubsub_core.late import Late, Sealed
from pubsub_core.line import Numbered
from pubsub_core.messages import CachedParcel, Parcel, unpack_parcel
from pubsub_core.proof import WINDOW, Nonces, all_digests, check_places, digest
from pubsub_core.session import Counts, Peer, Setting

Read: TypeAlias = tuple[msgspec.Raw, Event]
Arrived: TypeAlias = Iterable[Read]


class Arrivals:
    """Accepts the parcels of other brokers."""

    def __init__(self, setting: Setting, counts: Counts, peers: Mapping[str, Peer]) -> None:
        self._setting = setting
        self._counts = counts
        self._peers = peers
        self._nonces = Nonces()
        self._late = Late[Read]()
        self.on_late: Callable[[str], None] = lambda type_id: None
        """Is told when something waits for keys, and of which type it is, if that is known."""

    def late(self) -> Iterator[Read]:
        """What can be delivered now of what was waiting for keys."""

        def give_up() -> None:
            self._counts.unreadable += 1

        return self._late.open(self._setting.now(), give_up)

    def _keep(self, sender: str, type_: str, thing: Sealed[Read]) -> None:
        """Have something wait for its keys, if its sender is trusted with what it is."""
        carries = self._peers[sender].carries
        if not carries or (type_ and type_ not in carries):
            self._counts.untrusted += 1
        elif not self._late.keep(sender, thing, self._setting.now()):
            self._counts.overflowed += 1
        else:
            self.on_late(type_)

    def _opened_in_turn(self, sender: str, thing: Sealed[Read]) -> Arrived:
        """What can be read now; nothing, if it waits for keys, or behind something that does."""
        if self._late.waits(sender):
            self._keep(sender, "", thing)
            return ()
        try:
            return thing.open()
        except KeyAwaited as awaited:
            self._keep(sender, awaited.type_id, thing)
            return ()

    def accept_cached(self, parcel: CachedParcel) -> Arrived:
        """The events that a broker with the same keys has passed on in clear."""
        if parcel.sender not in self._peers:
            self._counts.untrusted += 1
            return ()
        opened = partial(self._accept_cached, parcel)
        return self._opened_in_turn(parcel.sender, Sealed(opened, parcel.cached.held))

    def _accept_cached(self, parcel: CachedParcel) -> Arrived:
        inner = self._uncache(parcel)
        return self.accept(inner, trusted=True) if inner is not None else ()

    def _uncache(self, parcel: CachedParcel) -> Parcel | None:
        """What a broker with the same keys has passed on; None if it is not that. Raises KeyAwaited."""
        peer = self._peers.get(parcel.sender)
        if peer is None:
            self._counts.untrusted += 1
            return None
        link = f"{parcel.sender}>{self._setting.name}".encode()
        try:
            inner = unpack_parcel(self._setting.vault.uncache(parcel.cached, link, peer.key))
        except (CannotOpen, BadMessage):
            self._counts.forged += 1
            return None
        return inner if inner.sender == parcel.sender else None

    def unbox(self, message: Numbered) -> list[Message]:
        """What is in a box from another broker; nothing, if it is empty or cannot be opened."""
        peer = self._peers[message.sender]
        try:
            return open_box(peer.secret, message.sender, message.data)
        except CannotOpen:
            self._counts.forged += 1
            return []

    def accept(self, parcel: Parcel, trusted: bool) -> Arrived:
        """The events of a parcel that can be delivered. `trusted` says that it came under a common seal."""
        peer, proof, now = self._peers.get(parcel.sender), parcel.proof, self._setting.now()
        if peer is None:
            self._counts.untrusted += len(parcel.events)
            return ()
        # A bundle of several types may come in several parcels, so what is used up is the nonce with its first event.
        first = parcel.columns or b"".join(map(bytes, parcel.events[:1]))
        if not self._nonces.use(digest(proof.nonce + first), proof.time, now):
            self._counts.replayed += 1
            return ()
        scrutiny = self._setting.scrutiny
        publisher: bytes | None = None
        if scrutiny.wants(peer.name):
            try:
                publisher = self._verify(peer, parcel, now)
            except AuthFabricError:
                self._counts.forged += 1
                scrutiny.caught(peer.name)
                return ()
            self._counts.verified += 1
        else:
            self._counts.unverified += 1
        return self._accepted(peer, parcel, publisher, trusted)

    def _verify(self, peer: Peer, parcel: Parcel, now: float) -> bytes:
        """The publisher's key, if the proof holds. Raises InvalidSignature, UntrustedSigner or Refused."""
        proof = parcel.proof
        _, key = self._setting.credentials.open(proof.credential, now)
        signer = PublicKey(proof.by) if proof.by else key
        if proof.by and str(signer) != peer.key:
            raise InvalidSignature
        digests = parcel.digests
        if digests:
            check_places(digests, parcel.places, parcel.events)
        else:
            digests = digest(parcel.columns) if parcel.columns else all_digests(parcel.events)
        proof.verify(signer, digests)
        return key.raw

    def _accepted(self, peer: Peer, parcel: Parcel, publisher: bytes | None, trusted: bool) -> Arrived:
        if parcel.columns:
            opened = partial(self._accepted_columns, peer, parcel.columns, publisher)
            yield from self._opened_in_turn(peer.name, Sealed(opened, len(parcel.columns)))
            return
        sealed, latest = self._setting.vault.sealed, self._setting.now() + WINDOW
        for raw in parcel.events:
            try:
                event = decode(raw)
            except InvalidEvent:
                self._counts.forged += 1
                continue
            if event.type not in peer.carries:
                self._counts.untrusted += 1
            elif (publisher is not None and event.publisher != publisher) or not 0.0 <= event.time <= latest:
                self._counts.forged += 1
            elif event.sealed is not None or (event.type in sealed and not trusted):
                opened = partial(self._opened, event, peer.key)
                yield from self._opened_in_turn(peer.name, Sealed(opened, len(memoryview(raw))))
            else:
                self._counts.received += 1
                yield raw, event

    def _accepted_columns(self, peer: Peer, columns: bytes, publisher: bytes | None) -> Arrived:
        """Events that came in columns, with what can be read of them here. Raises KeyAwaited."""
        try:
            events = self._setting.vault.open_many(columns, peer.key)
        except CannotOpen:
            self._counts.forged += 1
            return ()
        if not events or events[0].type not in peer.carries:
            self._counts.untrusted += len(events)
            return ()
        latest = self._setting.now() + WINDOW
        published = [
            each
            for each in events
            if (publisher is None or each.publisher == publisher) and 0.0 <= each.time <= latest
        ]
        self._counts.forged += len(events) - len(published)
        return self._read(published)

    def _opened(self, event: Event, sender: str) -> Arrived:
        """An event with what can be read of it here; nothing if it is not rightly sealed. Raises KeyAwaited."""
        try:
            return self._read([self._setting.vault.open(event, sender)])
        except CannotOpen:
            self._counts.forged += 1
            return ()

    def _read(self, events: list[Event]) -> Arrived:
        """Those of some events of one type of which anything can be read here."""
        blind = bool(events) and not self._setting.vault.reads(events[0].type)
        readable = [each for each in events if each.attributes or not blind]
        self._counts.received += len(readable)
        self._counts.unreadable += len(events) - len(readable)
        return [(msgspec.Raw(encode(each)), each) for each in readable]

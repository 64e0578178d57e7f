"""What comes from other brokers: verified as far as scrutiny asks, opened as far as keys allow, and taken once.

Invariant: what is accepted came from a broker trusted with its type, under a proof that was not used before; and if it
was verified, it was published by the holder of the credential that it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from authz import PublicKey
from authz.errors import AuthFabricError, InvalidSignature
from bus.errors import BadMessage
from pubsub_core.errors import InvalidEvent
from pubsub_core.event import Event, decode, encode
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.steady import Message, open_box
from pubsub_core.line import Numbered
from pubsub_core.messages import CachedParcel, Parcel, unpack_parcel
from pubsub_core.proof import WINDOW, Nonces, all_digests, check_places, digest
from pubsub_core.session import Counts, Peer, Setting


class Arrivals:
    """Accepts the parcels of other brokers."""

    def __init__(self, setting: Setting, counts: Counts, peers: Mapping[str, Peer]) -> None:
        self._setting = setting
        self._counts = counts
        self._peers = peers
        self._nonces = Nonces()

    def uncache(self, parcel: CachedParcel) -> Parcel | None:
        """What a broker with the same keys has passed on in clear; None if it is not that."""
        link = f"{parcel.sender}>{self._setting.name}".encode()
        try:
            inner = unpack_parcel(self._setting.vault.uncache(parcel.cached, link))
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

    def accept(self, parcel: Parcel, trusted: bool) -> Iterable[tuple[msgspec.Raw, Event]]:
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
                opened = self._opened(event)
                if opened is not None:
                    yield msgspec.Raw(encode(opened)), opened
            else:
                self._counts.received += 1
                yield raw, event

    def _accepted_columns(
        self, peer: Peer, parcel: Parcel, publisher: bytes | None
    ) -> Iterable[tuple[msgspec.Raw, Event]]:
        try:
            events = self._setting.vault.open_many(parcel.columns)
        except CannotOpen:
            self._counts.forged += 1
            return
        if not events or events[0].type not in peer.carries:
            self._counts.untrusted += len(events)
            return
        latest = self._setting.now() + WINDOW
        for event in events:
            if (publisher is not None and event.publisher != publisher) or not 0.0 <= event.time <= latest:
                self._counts.forged += 1
            else:
                self._counts.received += 1
                yield msgspec.Raw(encode(event)), event

    def _opened(self, event: Event) -> Event | None:
        """An event with what can be read of it here; None if it is not rightly sealed."""
        try:
            opened = self._setting.vault.open(event)
        except CannotOpen:
            self._counts.forged += 1
            return None
        self._counts.received += 1
        return opened

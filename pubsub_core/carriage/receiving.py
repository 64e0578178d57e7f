"""Receiving parcels: verified by trust, numbers and proofs, opened, and taken once.

Invariant: what is given to be delivered was signed by a broker trusted with its type, for the subject on which it came,
and was not given before; and if its proof was verified, it was published by the holder of the credential it shows. What
was published and did not come is told of: numbers on a subject follow each other. So is what a trusted broker signed
and is not given after all, unless it is a repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TypeAlias

import msgspec

from authz import PublicKey
from authz.errors import UNREADABLE, AuthFabricError, InvalidSignature
from bus.wire import subjects
from pubsub_core.carriage.awaiting_keys import PATIENCE as LATE_SECONDS
from pubsub_core.carriage.awaiting_keys import Late, Sealed
from pubsub_core.carriage.gap_detection import GapDetection
from pubsub_core.carriage.parcel import Contents, Parcel, read_parcel
from pubsub_core.carriage.unknown_brokers import UnknownBrokers
from pubsub_core.delivery import Counts, Setting
from pubsub_core.errors import InvalidEvent
from pubsub_core.events import (
    CLOCK_MARGIN,
    WINDOW,
    Event,
    GapReason,
    Missed,
    Nonces,
    decode,
    decode_all,
    digest,
    encode,
)
from pubsub_core.keys import CannotOpen, KeyAwaited
from pubsub_core.messages import place_of

Read: TypeAlias = tuple[msgspec.Raw, Event, int]
"""An event with its place in the stream."""
Opened: TypeAlias = Iterable[Read]
_Found: TypeAlias = tuple[msgspec.Raw, Event]

NO_KEYS = "the broker did not get the keys within {:g} s"
TOO_MANY = "too many events waited for keys"
LOST = "{} parcels of a broker were discarded before they were read here"
ELSEWHERE = "events of a type came by a stream in which its owner does not keep it any more"
LATE = "a broker restarted with a clock that had been set back, or two run under one key"
UNPROVED = f"events of a broker could not be believed: their proof is wrong, or more than {WINDOW:g} s old"
STALE = f"events were stored more than {WINDOW:g} s after they were signed"

_decode_contents = msgspec.msgpack.Decoder(Contents).decode


class Receiving:
    """Takes in the parcels of other brokers."""

    def __init__(
        self,
        setting: Setting,
        counts: Counts,
        trusts: Callable[[str, str], bool],
        missed: Callable[[Collection[str], Missed], None],
    ) -> None:
        """`trusts` says whether the broker with a key may carry a type; `missed` is told of what does not come."""
        self._setting = setting
        self._counts = counts
        self._trusts = trusts
        self._missed = missed
        self._nonces = Nonces()
        self._gaps = GapDetection()
        self._late = Late[Read]()
        self._awaited: set[str] = set()
        self.newcomers: UnknownBrokers | None = None
        """Who is not passed over before what was stored has been read again, where that can be."""

    def waiting(self, storage: str = subjects.FILE) -> int | None:
        """The number, in the stream of a storage class, of the oldest parcel that waits for keys; None if none does."""
        return self._late.oldest(storage)

    def take_awaited(self) -> set[str]:
        """The types of which something began to wait for keys since this was last asked."""
        awaited, self._awaited = self._awaited, set()
        return awaited

    def take(self, number: int, subject: str, stored: float, data: bytes) -> Iterator[Read]:
        """The events of a parcel, by its number in the stream, that can be delivered now. May raise NotVouched."""
        place = subjects.parcel_place(subject)
        type_ = place.type
        try:
            opened = read_parcel(data)
        except InvalidSignature:
            self._counts.forged += 1
            return
        parcel, sender = opened.value, str(opened.signer)
        if parcel.subject != subject:
            self._counts.forged += 1
        elif not self._trusts(sender, type_):
            if self.newcomers is not None:
                self.newcomers.meet(sender, type_)
            self._counts.untrusted += 1
        elif self._gaps.repeats(sender, parcel):
            self._counts.replayed += 1
        elif self._setting.catalogue.newest(type_).place != place:
            self._counts.forged += 1
            self._miss((type_,), GapReason.CARRIAGE, ELSEWHERE, parcel.time)
        elif not abs(stored - parcel.time) <= WINDOW:
            self._counts.replayed += 1
            self._miss((type_,), GapReason.CARRIAGE, STALE, parcel.time)
        elif self._in_turn(sender, type_, parcel):
            yield from self._opened_in_turn(number, sender, type_, parcel, len(data))

    def _in_turn(self, sender: str, type_: str, parcel: Parcel) -> bool:
        """Whether a parcel comes after those before it; tells if it does not, or if some before it are missing."""
        gap = self._gaps.gap_before(sender, parcel)
        if gap.lost:
            self._counts.lost += gap.lost
            self._miss((type_,), GapReason.CARRIAGE, LOST.format(gap.lost), gap.since)
        if gap.late:
            self._counts.replayed += 1
            self._miss((type_,), GapReason.CARRIAGE, LATE, parcel.time)
        return not gap.late

    def forget(self, wanted: Collection[str]) -> None:
        """What nobody here wants any more may be left out from now on."""
        self._gaps.forget(wanted)

    def late(self) -> Iterator[Read]:
        """What can be delivered now of what was waiting for keys."""

        def give_up(type_: str) -> None:
            self._counts.unreadable += 1
            self._miss((type_,), GapReason.KEYS, NO_KEYS.format(LATE_SECONDS))

        return self._late.open(self._setting.now(), lambda place: give_up(place[1]))

    def _opened_in_turn(self, number: int, sender: str, type_: str, parcel: Parcel, size: int) -> Opened:
        """What can be read now; nothing, if it waits for keys, or behind something that does."""
        storage = subjects.parcel_place(parcel.subject).storage
        thing = Sealed(partial(self._open, number, sender, type_, parcel), size, number, storage)
        place = sender, type_
        if not self._late.waits(place):
            try:
                return thing.open()
            except KeyAwaited:
                self._awaited.add(type_)
        if not self._late.keep(place, thing, self._setting.now()):
            self._counts.overflowed += 1
            self._miss((type_,), GapReason.KEYS, TOO_MANY)
        return ()

    def _open(self, number: int, sender: str, type_: str, parcel: Parcel) -> list[Read]:
        """The events in a parcel. Raises KeyAwaited."""
        found, base, forged = list[Read](), place_of(number, 0), self._counts.forged
        for contents in self._contents(sender, type_, parcel):
            events = self._events(sender, type_, contents)
            found += self._accept(sender, type_, parcel.time, contents, events, base)
            base += len(events)
        if self._counts.forged > forged:
            self._miss((type_,), GapReason.CARRIAGE, UNPROVED, parcel.time)
        return found

    def _contents(self, sender: str, type_: str, parcel: Parcel) -> list[Contents]:
        if not parcel.box:
            return [parcel.contents] if parcel.contents is not None else []
        try:
            boxed = [
                _decode_contents(each) for each in self._setting.vault.open_box(type_, parcel.box, sender)
            ]
            for each in boxed:
                each.check()
        except (CannotOpen, InvalidSignature, *UNREADABLE):
            self._counts.forged += 1
            return []
        return boxed

    def _accept(
        self, sender: str, type_: str, sent: float, contents: Contents, events: list[_Found], base: int
    ) -> list[Read]:
        """Those of the events sent together that can be delivered; the first of all has this place."""
        setting, proof = self._setting, contents.proof
        publisher: bytes | None = None
        # A bundle of several types comes in several parcels, so what is used up is the nonce with its first event.
        first = contents.columns or b"".join(map(bytes, contents.events[:1]))
        nonce = digest(proof.nonce + first)
        if self._nonces.knows(nonce):
            self._counts.replayed += 1
            return []
        if not self._nonces.use(nonce, proof.time, sent):
            self._counts.replayed += 1
            self._miss((type_,), GapReason.CARRIAGE, UNPROVED, sent)
            return []
        if setting.scrutiny.wants(sender):
            try:
                publisher = self._verify(sender, contents, sent)
            except AuthFabricError:
                self._counts.forged += 1
                setting.scrutiny.caught(sender)
                return []
            self._counts.verified += 1
        else:
            self._counts.unverified += 1
        latest = sent + WINDOW
        published = [
            (raw, event, place)
            for place, (raw, event) in enumerate(events, base)
            if event.type == type_
            and (publisher is None or event.publisher == publisher)
            and 0.0 <= event.time <= latest
        ]
        self._counts.forged += len(events) - len(published)
        if type_ in setting.vault.sealed and not setting.vault.reads(type_):
            readable = [each for each in published if each[1].attributes]
            self._counts.unreadable += len(published) - len(readable)
            published = readable
        self._counts.received += len(published)
        return published

    def _verify(self, sender: str, contents: Contents, sent: float) -> bytes:
        """The publisher's key, if the proof holds. Raises InvalidSignature or CredentialRefused."""
        proof = contents.proof
        _, key = self._setting.credentials.open(proof.credential, sent)
        signer = PublicKey(proof.by) if proof.by else key
        if proof.by and str(signer) != sender:
            raise InvalidSignature
        proof.verify(signer, contents.digests)
        return key.raw

    def _events(self, sender: str, type_: str, contents: Contents) -> list[_Found]:
        """Events with what can be read of them here. Raises KeyAwaited."""
        vault, raws = self._setting.vault, contents.events
        if contents.columns:
            try:
                return [_encoded(each) for each in vault.open_many(contents.columns, sender)]
            except CannotOpen:
                self._counts.forged += 1
                return []
        try:
            events = decode_all(raws)
        except InvalidEvent:  # whoever sent one that is none may have sent others that are some
            raws = [raw for raw in raws if _is_event(raw)]
            self._counts.forged += len(contents.events) - len(raws)
            events = decode_all(raws)
        if type_ not in vault.sealed and all(each.sealed is None for each in events):
            return list(zip(raws, events, strict=True))
        read = list[_Found]()
        for event in events:
            try:
                read.append(_encoded(vault.open(event, sender)))
            except CannotOpen:
                self._counts.forged += 1
        return read

    def _miss(
        self, types: Collection[str], reason: GapReason, detail: str, start: float | None = None
    ) -> None:
        now = self._setting.now()
        since = now - WINDOW if start is None else start - CLOCK_MARGIN
        self._missed(types, Missed(reason, detail, since, now + CLOCK_MARGIN))


def _encoded(event: Event) -> _Found:
    return msgspec.Raw(encode(event)), event


def _is_event(raw: msgspec.Raw) -> bool:
    try:
        decode(raw)
    except InvalidEvent:
        return False
    return True

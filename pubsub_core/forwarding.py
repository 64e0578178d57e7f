"""What a broker passes on: to each other broker the events that it wants, in parcels, numbered on the line to it.

Invariant: another broker is sent the events that one of its announced filters lets through, and, of a type whose events
are sealed, nothing in clear unless it holds the same keys.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from bus.envelope import pack
from pubsub_core.event import Event, encode
from pubsub_core.intake import Admitted
from pubsub_core.keys.errors import KeyMissing
from pubsub_core.keys.steady import Message, boxfuls, seal_box
from pubsub_core.line import Kind, Numbered
from pubsub_core.messages import CachedParcel, Parcel
from pubsub_core.proof import DIGEST_BYTES, WINDOW, Proof, all_digests, digest
from pubsub_core.session import Counts, Peer, Setting
from pubsub_core.switchboard import Switchboard
from pubsub_core.ways import Ways

MAX_PARCEL_BYTES = 192 * 1024
"""The most bytes in one parcel: one too large to send would take a sequence number, and block all after it."""
Place: TypeAlias = tuple[int, msgspec.Raw, Event]
"""An event with its place in a bundle."""
PATIENCE = 600.0
"""Seconds for which keys are waited for to seal with."""
MAX_UNSEALED = 1024
"""The most parcels that wait for keys."""


@dataclass(frozen=True, slots=True)
class _Unsealed:
    """A parcel in the making."""

    peer: str
    type: str
    items: list[Place]
    admitted: Admitted
    until: float


class Forwarding:
    """Passes events on to other brokers."""

    def __init__(
        self,
        setting: Setting,
        counts: Counts,
        switchboard: Switchboard,
        peers: Mapping[str, Peer],
        ways: Ways,
    ) -> None:
        self._setting = setting
        self._counts = counts
        self._switchboard = switchboard
        self._peers = peers
        self._waiting: defaultdict[tuple[str, str], list[Message]] = defaultdict(list)
        """What goes with the next box to a broker, of each type that travels at a steady pace."""
        self._next: dict[str, float] = {}
        self._ways = ways
        self._unsealed: deque[_Unsealed] = deque()
        """What waits for the keys that it is to be sealed with."""
        self.boot = int(setting.now() * 1000)
        """When it started: it counts what it sends from there."""

    def forward(self, admitted: Admitted) -> None:
        """Send each broker what it wants of a bundle."""
        wanted: defaultdict[str, list[Place]] = defaultdict(list)
        brokers = self._switchboard.remote(event for _, _, event in admitted.events)
        for item, names in zip(admitted.events, brokers, strict=True):
            for name in names:
                wanted[name].append(item)
        until = self._setting.now() + PATIENCE
        for name, every in wanted.items():
            for type_, items in _of_each_type(every):
                for part in _parcelfuls(items):
                    self._pass_on(_Unsealed(name, type_, part, admitted, until))

    def try_again(self) -> None:
        """Send what was waiting for keys, if they have come."""
        waiting, self._unsealed = self._unsealed, deque()
        for each in waiting:
            if each.until < self._setting.now():
                self._counts.overflowed += len(each.items)
            elif self._serves(each.peer, each.type):
                self._pass_on(each)

    def _pass_on(self, each: _Unsealed) -> None:
        """Send a broker events of one type; if there are no keys to seal them with, or others wait for these, later."""
        vault, place = self._setting.vault, (each.peer, each.type)
        if any((other.peer, other.type) == place for other in self._unsealed):
            self._wait(each)
            return
        peer = self._peers[each.peer]
        try:
            if each.type in vault.sealed and not vault.equal(each.type, peer.groups):
                events = [event for _, _, event in each.items]
                self._send_sealed(peer, each.type, events, each.admitted.proof)
            else:
                self.send_parcel(peer, each.type, self._parcel(*self._vouched(each)))
        except KeyMissing:
            self._wait(each)

    def _wait(self, each: _Unsealed) -> None:
        if len(self._unsealed) >= MAX_UNSEALED:
            self._counts.overflowed += len(self._unsealed.popleft().items)
        self._unsealed.append(each)

    def _vouched(self, each: _Unsealed) -> tuple[list[Place], Admitted]:
        """What has waited, under a proof of our own: nobody takes what its publisher signed so long ago."""
        items, admitted = each.items, each.admitted
        if self._setting.now() - admitted.proof.time < WINDOW / 2:
            return items, admitted
        digests = all_digests(raw for _, raw, _ in items)
        proof = self._setting.vouch(admitted.proof, digests)
        places = [(place, raw, event) for place, (_, raw, event) in enumerate(items)]
        return places, replace(admitted, proof=proof, digests=digests)

    def _parcel(self, items: list[Place], admitted: Admitted) -> Parcel:
        parcel = Parcel(self._setting.name, admitted.proof, [raw for _, raw, _ in items])
        if len(items) * DIGEST_BYTES == len(admitted.digests):
            return parcel
        places = [place for place, _, _ in items]
        return msgspec.structs.replace(parcel, digests=admitted.digests, places=places)

    def _send_sealed(self, peer: Peer, type_: str, events: list[Event], proof: Proof) -> None:
        """Send a broker events of which it may not read everything, vouching for what they have become."""
        setting = self._setting
        columns = setting.vault.seal_many(events)
        if columns is not None:
            own = setting.vouch(proof, digest(columns))
            parcel = Parcel(setting.name, own, [], columns=columns)
        else:  # a key ends among them
            sealed = [msgspec.Raw(encode(setting.vault.seal(event))) for event in events]
            parcel = Parcel(setting.name, setting.vouch(proof, all_digests(sealed)), sealed)
        self._send(peer, type_, pack(parcel))
        self._counts.forwarded += len(events)

    def send_parcel(self, peer: Peer, type_: str, parcel: Parcel) -> None:
        """Send a parcel of one type's events as it is, or, if they travel sealed, sealed as a whole."""
        setting, data = self._setting, pack(parcel)
        if type_ not in setting.vault.sealed:
            self._send(peer, type_, data)
        else:
            link = f"{setting.name}>{peer.name}".encode()
            cached = setting.vault.cache(type_, setting.now(), link, data)
            self._send(peer, type_, pack(CachedParcel(setting.name, cached)), Kind.CACHED)
        self._counts.forwarded += len(parcel.events)

    def _send(self, peer: Peer, type_: str, data: bytes, kind: Kind = Kind.PARCEL) -> None:
        """Send something now, or, if its type travels at a steady pace, with the next box."""
        if self._setting.vault.plan(type_).pace:
            self._waiting[peer.name, type_].append((kind, data))
        else:
            self.send_on(peer, peer.outgoing.add(self._setting.name, self.boot, data, kind, type_))

    def tick(self, now: float, held: bool = False) -> float:
        """Send the boxes that are due, and say when the next is. While held, what waits goes on waiting."""
        vault = self._setting.vault
        paced = {type_: plan for type_ in vault.sealed if (plan := vault.plan(type_)).pace}
        for type_, plan in paced.items():
            if now >= self._next.get(type_, 0.0):
                self._next[type_] = (now // plan.pace + 1) * plan.pace
                self._send_boxes(type_, held)
        for type_ in {waiting for _, waiting in self._waiting} - paced.keys():  # whose pace was given up
            self._send_boxes(type_, held)
        return min((self._next[type_] for type_ in paced), default=math.inf)

    def _send_boxes(self, type_: str, held: bool) -> None:
        for peer in self._peers.values():
            if type_ in peer.served and peer.secret:
                messages = [] if held else self._waiting.pop((peer.name, type_), [])
                for part in boxfuls(messages):
                    box = seal_box(peer.secret, self._setting.name, part)
                    message = peer.outgoing.add(self._setting.name, self.boot, box, Kind.BOX, type_)
                    self.send_on(peer, message)
        gone = [key for key in self._waiting if key[1] == type_ and not self._serves(*key)]
        for key in gone:
            del self._waiting[key]

    def _serves(self, name: str, type_: str) -> bool:
        return name in self._peers and type_ in self._peers[name].served

    def send_on(self, peer: Peer, message: Numbered) -> None:
        """Send a message on the line to another broker, or on a way through others."""
        data, cached = pack(message.tagged(peer.secret)), message.kind is Kind.CACHED
        if peer.direct:
            self._setting.send(peer.cached_subject if cached else peer.subject, data)
        else:
            self._ways.send(peer, "cached" if cached else "events", data, message.type)


def _of_each_type(items: list[Place]) -> Iterable[tuple[str, list[Place]]]:
    """Events by their types, all of one almost always."""
    first = items[0][2].type
    if all(event.type == first for _, _, event in items):
        return ((first, items),)
    found: defaultdict[str, list[Place]] = defaultdict(list)
    for item in items:
        found[item[2].type].append(item)
    return found.items()


def _parcelfuls(items: list[Place]) -> Iterator[list[Place]]:
    """Events in parts that each fit a parcel; all in one, almost always."""
    if sum([len(memoryview(raw)) for _, raw, _ in items]) <= MAX_PARCEL_BYTES:
        yield items
        return
    part, size = list[Place](), 0
    for item in items:
        length = len(memoryview(item[1]))
        if part and size + length > MAX_PARCEL_BYTES:
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    yield part

"""What a broker publishes for others: events of a bundle in parcels, sealed once for the key groups of their type.

A parcel is published when the stream has the one before it on the same subject, so that numbers on a subject follow
each other whatever is published again, and the bundle before it of the same publisher, whose events stay in order; of a
type that is routed by content, those on one route do. Invariant:
`done` is called when the stream has everything of a bundle, and not before; of a type whose events are sealed, nothing
is published in clear.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from bus.stores import Acknowledgement
from bus.wire import subjects
from pubsub_core.carriage.parcel import Contents, Parcel, sign_parcel
from pubsub_core.carriage.routing import ALL_READ, Route, Routing
from pubsub_core.delivery import Admitted, Counts, Place, Setting
from pubsub_core.events import WINDOW, Event, Proof, all_digests, digest, encode
from pubsub_core.keys import KeyMissing

MAX_PARCEL_BYTES = 192 * 1024
"""Maximum bytes of events in a parcel: sealed and signed, it has to fit a message."""
MAX_BOX_BYTES = 256_000
"""Maximum bytes of contents in one box."""
PATIENCE = 600.0
"""Seconds for which keys are waited for to seal with."""
MAX_LANES = 16_384
"""Maximum routes whose parcels are counted; beyond, idle ones start again."""
KEYLESS = "the broker did not get the keys in time to seal it with"
Publish: TypeAlias = Callable[[str, str, Callable[[], bytes], Callable[[Acknowledgement], None]], None]
"""Publishes on a subject, under an id, what the function gives, again and again, until the stream has it; then calls
back."""
Done: TypeAlias = Callable[[str, bool], None]
"""Called when the stream has everything, or with why not; and with whether it had all of it before."""
_Divided: TypeAlias = tuple[str, Route, Sequence[int], Sequence[msgspec.Raw], list[Event] | None]
"""A type, a route, and the events that go there together: their places, and they themselves; decoded, if they are."""

_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class _Bundle:
    """How much of a bundle the stream does not have yet."""

    left: int
    done: Done
    known: bool = True
    """Whether the stream had everything before that it has now."""

    def settle(self, known: bool, problem: str = "") -> None:
        if self.left > 0:
            self.known &= known
            self.left = -1 if problem else self.left - 1
            if self.left <= 0:
                self.done(problem, self.known)


@dataclass(slots=True, eq=False)
class _Part:
    """What goes into one parcel."""

    type: str
    route: Route
    publisher: str
    places: Sequence[int]
    """Of the events, in their bundle."""
    raws: Sequence[msgspec.Raw]
    events: list[Event] | None
    """None if nobody has had to decode them."""
    admitted: Admitted
    bundle: _Bundle
    id: str
    until: float


@dataclass(slots=True)
class _Lane:
    """Parcels on one subject on their way."""

    boot: int
    """When it began to count."""
    number: int = 0
    doubtful: int = 0
    """How many of the last numbers may not be in the stream."""
    parts: deque[_Part] = field(default_factory=deque)
    """In order; the first may be under way."""
    busy: bool = False
    due: float = 0.0
    """When the next box is, if the type travels at a steady pace."""


class Sending:
    """Publishes events for other brokers."""

    def __init__(
        self,
        setting: Setting,
        counts: Counts,
        carries: Callable[[str], bool],
        publish: Publish | None,
        routing: Routing,
    ) -> None:
        """`carries` says whether this broker is trusted with a type, by UUID; without `publish`, nothing goes out."""
        self._setting = setting
        self._counts = counts
        self._carries = carries
        self.publish = publish
        self._routing = routing
        self._lanes: dict[tuple[str, Route], _Lane] = {}
        """By type and route."""
        self._publishers: defaultdict[str, deque[_Part]] = defaultdict(deque)
        """What each publisher has on its way."""
        self._secret = setting.identity.derive("parcel ids")
        self._own = subjects.place(setting.identity.public)

    def is_own(self, id_: str) -> bool:
        """Whether this broker has published the parcel with this id."""
        return id_.startswith(f"{self._own}.")

    def send(self, publisher: str, admitted: Admitted, done: Done) -> None:
        """Publish the events of a publisher's bundle, and say when the stream has them."""
        bundle, until = _Bundle(0, done), self._setting.now() + PATIENCE
        parts = list[_Part]()
        for type_, route, places, raws, events in self._divided(admitted):
            id_ = self._id(type_, len(parts), places, admitted)
            parts.append(_Part(type_, route, publisher, places, raws, events, admitted, bundle, id_, until))
        if not parts:
            done("", False)
            return
        bundle.left = len(parts)
        for part in parts:
            self._lane(part.type, part.route).parts.append(part)
            self._publishers[publisher].append(part)
        for part in parts:
            self._go_on(part.type, part.route)

    def _divided(self, admitted: Admitted) -> Iterator[_Divided]:
        """A bundle in parts that each fit a parcel, by type and route; whole, almost always."""
        alike, sealed = admitted.alike, self._setting.vault.sealed
        if self.publish is None:
            return
        fits = admitted.size <= MAX_PARCEL_BYTES
        if alike and alike not in sealed and not self._routing.routed(alike) and fits:
            if self._carries(alike):
                yield alike, ALL_READ, range(len(admitted.raws)), admitted.raws, None
            return
        for type_, items in _of_each_type(admitted.events):
            if self._carries(type_):
                for route, some in self._of_each_route(type_, items):
                    for part in _parcelfuls(some):
                        places, raws, events = zip(*part, strict=True)
                        yield type_, route, places, raws, list(events)

    def _of_each_route(self, type_: str, items: list[Place]) -> Iterable[tuple[Route, list[Place]]]:
        """Events of a type by the routes on which they are published, all on one almost always."""
        if not self._routing.routed(type_):
            return ((ALL_READ, items),)
        found: defaultdict[Route, list[Place]] = defaultdict(list)
        for route, item in zip(self._routing.routes(type_, [each[2] for each in items]), items, strict=True):
            found[route].append(item)
        return found.items()

    def _lane(self, type_: str, route: Route) -> _Lane:
        lane = self._lanes.get((type_, route))
        if lane is None:
            if len(self._lanes) >= MAX_LANES:
                self._lanes = {key: each for key, each in self._lanes.items() if each.parts or each.busy}
            lane = self._lanes[type_, route] = _Lane(int(self._setting.now() * 1000))
        return lane

    def _id(self, type_: str, number: int, places: Sequence[int], admitted: Admitted) -> str:
        """The same for the same events, whenever they are published; and whichever broker does, if they have an id.

        It tells nothing of them: ids are random, and digests are keyed, so that nobody can try values out.
        """
        hashed = hashlib.blake2b(key=b"" if admitted.id else self._secret, digest_size=24)
        hashed.update(f"{type_} {number} ".encode())
        if self._routing.routed(type_):  # after a change of keys other events are published together
            hashed.update(_encode(places))
        hashed.update(admitted.id or admitted.digests)
        return f"{self._own}.{hashed.hexdigest()}"

    def try_again(self) -> None:
        """Keys may have come: publish what was waiting for them, and give up what waits for too long."""
        now = self._setting.now()
        for (type_, route), lane in [each for each in self._lanes.items() if each[1].parts]:
            while lane.parts and not lane.busy and lane.parts[0].until < now:
                part = lane.parts[0]
                self._counts.overflowed += len(part.raws)
                self._settle(part, False, KEYLESS)
            self._go_on(type_, route)

    def _go_on(self, type_: str, route: Route) -> None:
        """Publish the next parcel on a route, if it is its turn and there are keys to seal it with."""
        lane = self._lane(type_, route)
        if lane.busy or not lane.parts or self._setting.vault.plan(type_).pace:
            return
        part = lane.parts[0]
        first = self._publishers[part.publisher][0]
        if first is not part and (first.bundle is not part.bundle or first.type != part.type):
            return
        try:
            contents = self._contents(type_, part)
        except KeyMissing:
            return
        self._put(type_, route, part.id, contents, b"", [part])

    def _put(
        self,
        type_: str,
        route: Route,
        id_: str,
        contents: Contents | None,
        box: bytes,
        parts: list[_Part],
    ) -> None:
        setting, lane = self._setting, self._lane(type_, route)
        lane.busy = True
        lane.number += 1
        place = setting.catalogue.newest(type_).place
        number, doubtful = lane.number, lane.doubtful
        subject = subjects.parcel(setting.domain, place, *route)

        def make() -> bytes:
            fresh = contents if contents is None else self._vouched(contents)
            parcel = Parcel(subject, lane.boot, number, setting.now(), fresh, box, doubtful)
            return sign_parcel(parcel, setting.identity)

        def acknowledged(how: Acknowledgement) -> None:
            lane.busy = False
            if how is Acknowledgement.KNOWN:
                lane.number -= 1  # it stands in the stream under an earlier number, or another broker's
            else:
                lane.doubtful = lane.doubtful + 1 if how is Acknowledgement.DOUBTFUL else 0
            for part in parts:
                self._counts.forwarded += len(part.raws)
                self._settle(part, how is Acknowledgement.KNOWN)
            self._go_on(type_, route)

        assert self.publish is not None
        self.publish(subject, id_, make, acknowledged)

    def _settle(self, part: _Part, known: bool, problem: str = "") -> None:
        """Part of a bundle is no longer on its way: what comes next of its publisher may be of another type."""
        self._lane(part.type, part.route).parts.remove(part)
        mine = self._publishers[part.publisher]
        mine.remove(part)
        part.bundle.settle(known, problem)
        if not mine:
            self._publishers.pop(part.publisher, None)
        elif (mine[0].bundle, mine[0].type) != (part.bundle, part.type):
            for each in tuple(mine):
                if each.bundle is not mine[0].bundle or each.type != mine[0].type:
                    break
                self._go_on(each.type, each.route)

    def _contents(self, type_: str, part: _Part) -> Contents:
        """Events as they travel. Raises KeyMissing."""
        setting, raws, admitted = self._setting, list(part.raws), part.admitted
        if type_ in setting.vault.sealed:
            return self._sealed(part.events or [event for _, _, event in admitted.events], admitted)
        late = self._is_late(admitted.proof)
        if not late and len(raws) == admitted.bundled:
            return Contents(admitted.proof, raws, admitted.digests, runs=list(admitted.runs))
        whole = None if late else _whole_runs(part.places, admitted.runs)
        if whole is None:
            digests = all_digests(raws)
            return Contents(setting.vouch(admitted.proof, digests), raws, digests)
        places, runs = whole
        return Contents(admitted.proof, raws, admitted.digests, places, runs=runs)

    def _is_late(self, proof: Proof) -> bool:
        """Whether it may have been made too long ago for others, when they read it."""
        return self._setting.now() - proof.time > WINDOW / 2

    def _vouched(self, contents: Contents) -> Contents:
        """The same, by this broker's own word if the stream has been away for long."""
        if not self._is_late(contents.proof):
            return contents
        whole = contents.with_digests()
        return msgspec.structs.replace(whole, proof=self._setting.vouch(whole.proof, whole.digests))

    def _sealed(self, events: list[Event], admitted: Admitted) -> Contents:
        """Events sealed for the key groups of their type; this broker vouches for what they have become."""
        setting = self._setting
        columns = setting.vault.seal_many(events)
        if columns is not None:
            digests = digest(columns)
            return Contents(setting.vouch(admitted.proof, digests), digests=digests, columns=columns)
        sealed = [msgspec.Raw(encode(setting.vault.seal(event))) for event in events]  # a key ends among them
        digests = all_digests(sealed)
        return Contents(setting.vouch(admitted.proof, digests), sealed, digests)

    def tick(self, now: float, wanted: Callable[[str], bool], held: bool = False) -> float:
        """Publish the boxes that are due, and say when the next is. While held, what waits goes on waiting."""
        vault, next_ = self._setting.vault, math.inf
        for type_ in tuple(vault.sealed) if self.publish is not None else ():
            pace, lane = vault.plan(type_).pace, self._lane(type_, ALL_READ)
            if not pace:
                continue
            if now >= lane.due:
                lane.due = (now // pace + 1) * pace
                if (lane.parts or wanted(type_)) and self._carries(type_) and not lane.busy:
                    self._send_box(type_, lane, now, held)
            next_ = min(next_, lane.due)
        return next_

    def _send_box(self, type_: str, lane: _Lane, now: float, held: bool) -> None:
        """Publish a box with what waits, or with nothing: from outside they look alike."""
        said, parts, size = list[bytes](), list[_Part](), 0
        try:
            for part in () if held else tuple(lane.parts):
                data = _encode(self._contents(type_, part))
                if said and size + len(data) > MAX_BOX_BYTES:
                    break
                said.append(data)
                size += len(data)
                parts.append(part)
            box = self._setting.vault.seal_box(type_, now, self._setting.identity.public.raw, said)
        except KeyMissing:
            return
        self._put(type_, ALL_READ, f"{self._own}.{self._setting.nonce().hex()}", None, box, parts)


def _of_each_type(items: list[Place]) -> Iterable[tuple[str, list[Place]]]:
    """Events by their types, all of one almost always."""
    if not items:
        return ()
    first = items[0][2].type
    if all(event.type == first for _, _, event in items):
        return ((first, items),)
    found: defaultdict[str, list[Place]] = defaultdict(list)
    for item in items:
        found[item[2].type].append(item)
    return found.items()


def _whole_runs(places: Sequence[int], runs: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """The runs of which all events are at these places, and their lengths; None if of one only some are."""
    wanted, start = set(places), 0
    found, lengths = list[int](), list[int]()
    for number, length in enumerate(runs):
        here = wanted.intersection(range(start, start + length))
        start += length
        if len(here) == length:
            found.append(number)
            lengths.append(length)
        elif here:
            return None
    return (found, lengths) if sum(lengths) == len(wanted) else None


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

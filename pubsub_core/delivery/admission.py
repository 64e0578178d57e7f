"""The publisher's side of a broker: what a client publishes is verified, checked against its type, and restricted.

Invariant: what is admitted is signed by the session's client, is not a replay, fits its type, and is what the client's
restriction allows to be published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from authz.errors import InvalidSignature
from pubsub_core.access import Enforcement
from pubsub_core.delivery.session import Counts, Session, Setting
from pubsub_core.errors import InvalidEvent, KeysAwaited, UnknownType
from pubsub_core.events import (
    MAX_EVENT_BYTES,
    TOO_LARGE,
    WINDOW,
    Event,
    Nonces,
    Proof,
    RunCheck,
    Shape,
    all_digests,
    as_array,
    decode,
    decode_all,
    encode,
    lengths_of_runs,
)
from pubsub_core.messages import Bundle, Taken

MAX_MADE_BYTES = 192 * 1024
"""Maximum bytes of an event after rules have transformed it: it has to fit a message."""
KEYLESS = (
    "cannot be published here: this broker holds no key for it; see that the type's key manager runs"
    " (`authfabric keys serve`), and that the broker's capability grants its attributes (its log says what it lacks)"
)
MADE_TOO_LARGE = f"is made into one of {{}} bytes by a rule, more than the {MAX_MADE_BYTES} that can be sent"
EXCLUDED = "may not be published: a restriction excludes it"
"""The error for an event that its publisher's restriction excludes."""


class _Barred(InvalidEvent):
    """An event that may not be published for another `reason` than what its type is like."""

    def __init__(self, reason: str, attribute: str, problem: str) -> None:
        super().__init__(attribute, problem)
        self.reason = reason


Place: TypeAlias = tuple[int, msgspec.Raw, Event]
"""An event with its place in a bundle."""


@dataclass(slots=True)
class Admitted:
    """What became of a bundle: the answer to its client, and the events to be routed."""

    taken: Taken
    proof: Proof
    digests: bytes = b""
    """Those of the runs of the whole bundle."""
    runs: Sequence[int] = ()
    """How many events each of them has, if there are several."""
    bundled: int = 0
    """How many events there were in the bundle that was signed."""
    alike: str = ""
    """The type of all events, if that was found out without decoding them."""
    raws: Sequence[msgspec.Raw] = ()
    """Then, the events: all those of the bundle."""
    size: int = 0
    """Then, how many bytes they have together."""
    _events: list[Place] | None = None
    originals: list[tuple[Event, msgspec.Raw]] | None = None
    """The events before rules transformed them, if there are such rules."""
    replaced: Sequence[tuple[Event, msgspec.Raw]] = ()
    """Those of them that became something else, or nothing: a history keeps them, and replays what they became."""
    id: bytes = b""
    """The same whenever and to whomever the bundle is sent; empty if its publisher did not say."""

    @property
    def events(self) -> list[Place]:
        """Those to be routed, each with its place in the bundle: decoded when they are first asked for."""
        if self._events is None:
            self._events = list(zip(range(len(self.raws)), self.raws, decode_all(self.raws), strict=True))
        return self._events

    @property
    def count(self) -> int:
        """How many were published, before any transformation."""
        if self.originals is not None:
            return len(self.originals)
        return len(self.raws) if self._events is None else len(self._events)

    @property
    def published(self) -> list[tuple[Event, msgspec.Raw]]:
        """The events as they were published, before any transformation."""
        return self.routed if self.originals is None else self.originals

    @property
    def routed(self) -> list[tuple[Event, msgspec.Raw]]:
        """The events that go to subscribers, now and when they are replayed."""
        return [(event, raw) for _, raw, event in self.events]


@dataclass(frozen=True, slots=True)
class _Free:
    """Events of one version that one client may publish as they are, if only their values are right."""

    type: str
    version: str
    publisher: bytes
    missing: frozenset[str]
    """The attributes for which there is no key here."""
    latest: float
    """No event is of a later time."""
    check: Callable[[Mapping[str, object]], None]

    def fits(self, event: Event, raw: msgspec.Raw) -> bool:
        """Whether nothing speaks against an event of this version but, perhaps, its values."""
        return (
            event.type == self.type
            and event.publisher == self.publisher
            and event.sealed is None
            and 0.0 <= event.time <= self.latest
            and len(memoryview(raw)) <= MAX_EVENT_BYTES
            and (not self.missing or event.attributes.keys().isdisjoint(self.missing))
        )


class Intake:
    """Admits the bundles that a broker's clients publish."""

    def __init__(self, setting: Setting, counts: Counts) -> None:
        self._setting = setting
        self._counts = counts
        self._nonces = Nonces()
        self._shapes: dict[str, tuple[str, Shape, RunCheck]] = {}

    def take(self, session: Session, bundle: Bundle) -> Admitted:
        """Admit what may be published of a bundle; nothing of it if the bundle as a whole is wrong or known."""
        number, proof, now = bundle.number, bundle.proof, self._setting.now()
        session.heard = now
        if number <= session.published:
            return Admitted(session.objections.get(number) or Taken(number), proof)
        if number != session.published + 1:
            late = Taken(number, problem="it came out of order", expected=session.published + 1)
            return Admitted(late, proof)
        if problem := self._setting.clock.problem(now, self._setting.name):
            self._counts.refused["clock"] += len(bundle.events)
            return Admitted(Taken(number, problem=problem, signed=proof.time), proof)
        try:
            digests = all_digests(bundle.events, bundle.runs)
            self._verify(session, proof, digests, now)
        except InvalidSignature as error:
            self._counts.forged += 1
            return Admitted(Taken(number, problem=str(error), signed=proof.time), proof)
        session.published = number
        alike, size = self._alike(session, bundle, now)
        if alike:
            self._counts.published += len(bundle.events)
            return Admitted(
                Taken(number), proof, digests, bundle.runs, len(bundle.events), alike, bundle.events, size,
                id=_id(session, bundle),
            )  # fmt: skip
        return self._admit_all(session, bundle, digests, now)

    def _alike(self, session: Session, bundle: Bundle, now: float) -> tuple[str, int]:
        """The type of the events, if they are all of one version and may be published as they are; empty otherwise.

        With how many bytes they have together.
        """
        raws = bundle.events
        try:
            first = decode(raws[0]) if raws else None
            granted = session.may_publish(first.type) if first is not None else None
            if first is None or granted is None or not granted.free:
                return "", 0
            if self._setting.vault.missing(first.type) != frozenset():
                return "", 0
            self._admit(session, granted, first, len(memoryview(raws[0])), now)
        except InvalidEvent:
            return "", 0
        data = as_array(raws)
        if len(data) > MAX_EVENT_BYTES and any(len(memoryview(raw)) > MAX_EVENT_BYTES for raw in raws):
            return "", 0
        right = self._shape(first.version)[2].admits(data, session.key.raw, now + WINDOW)
        return (first.type, len(data)) if right else ("", 0)

    def _verify(self, session: Session, proof: Proof, digests: bytes, now: float) -> None:
        """Raise InvalidSignature unless the session's own client signed exactly this, just now and once."""
        if proof.credential != session.credential or proof.by:
            raise InvalidSignature
        proof.verify(session.key, digests)
        if not self._nonces.use(proof.nonce, proof.time, now):
            raise InvalidSignature

    def _admit_all(self, session: Session, bundle: Bundle, digests: bytes, now: float) -> Admitted:
        refused: list[tuple[int, str, str]] = []
        passed: list[Place] = []
        changed = ruled = keyless = False
        free: dict[tuple[str, str], _Free] = {}
        usual: _Free | None = None
        for place, raw in enumerate(bundle.events):
            try:
                event = decode(raw)
                if usual is None or event.version != usual.version:
                    usual = free.get((event.type, event.version))
                if usual is not None and usual.fits(event, raw):
                    usual.check(event.attributes)
                    passed.append((place, raw, event))
                    continue
                granted = session.may_publish(event.type)
                values = self._admit(session, granted, event, len(memoryview(raw)), now)
            except InvalidEvent as error:
                keyless |= not refused and isinstance(error, KeysAwaited)
                refused.append((place, error.attribute, error.problem))
                self._counts.refused[_reason(error)] += 1
                continue
            if granted is not None and granted.free and (event.type, event.version) not in free:
                self._set_free(free, session, event, now)
            if values is None:
                refused.append((place, "event", EXCLUDED))
                self._counts.refused["restriction"] += 1
                continue
            if values is not event.attributes:
                event = msgspec.structs.replace(event, attributes=dict(values))
                raw, changed = msgspec.Raw(encode(event)), True
                self._counts.restricted += 1
            passed.append((place, raw, event))
            ruled |= granted is not None and bool(granted.judges)
        self._counts.published += len(passed)
        published = [(event, raw) for _, raw, event in passed] if ruled else None
        replaced: Sequence[tuple[Event, msgspec.Raw]] = ()
        if ruled:
            passed, replaced = self._transform(session, passed, now, refused)
            changed |= bool(replaced)
        proof, runs, bundled = bundle.proof, bundle.runs, len(bundle.events)
        if changed:
            runs, bundled = lengths_of_runs(event.type for _, _, event in passed), len(passed)
            digests = all_digests([raw for _, raw, _ in passed], runs)
            proof = self._setting.vouch(proof, digests)
            passed = [(place, raw, event) for place, (_, raw, event) in enumerate(passed)]
        taken = Taken(bundle.number, refused, keyless=keyless)
        if refused:
            session.object_to(taken)
        return Admitted(
            taken, proof, digests, runs, bundled,
            _events=passed, originals=published, replaced=replaced, id=_id(session, bundle),
        )  # fmt: skip

    def _transform(
        self,
        session: Session,
        events: list[Place],
        now: float,
        refused: list[tuple[int, str, str]],
    ) -> tuple[list[Place], list[tuple[Event, msgspec.Raw]]]:
        """What rules make of events that are published, and those that become anything else."""
        made, replaced = list[Place](), list[tuple[Event, msgspec.Raw]]()
        for place, raw, event in events:
            granted = session.may_publish(event.type)
            outputs = granted.transform(event, now) if granted is not None else ()
            if outputs == (event,):
                made.append((place, raw, event))
                continue
            replaced.append((event, raw))
            lacks = self._setting.vault.lacks
            readable = [each for each in outputs if lacks(each.type, each.attributes, each.time) is None]
            self._counts.withheld += len(outputs) - len(readable) if outputs else 1
            for each in readable:
                data = encode(each)
                if len(data) > MAX_MADE_BYTES:
                    self._counts.refused["size"] += 1
                    refused.append((place, "event", MADE_TOO_LARGE.format(len(data))))
                else:
                    made.append((place, msgspec.Raw(data), each))
        return made, replaced

    def _admit(
        self, session: Session, granted: Enforcement | None, event: Event, size: int, now: float
    ) -> Mapping[str, object] | None:
        """The values under which an event is published; None if it is withheld. Raises InvalidEvent."""
        if event.publisher != session.key.raw:
            raise _Barred("permission", "publisher", "must be the key of whoever sends it")
        if not 0.0 <= event.time <= now + WINDOW:
            raise _Barred("clock", "event", f"must be of no later time than now, not {event.time!r}")
        if size > MAX_EVENT_BYTES:
            raise _Barred("size", "event", TOO_LARGE.format(size))
        if granted is None:
            raise _Barred("permission", "type", "must be one that was advertised, and that may be published")
        type_, shape, _ = self._shape(event.version)
        if type_ != event.type:
            raise InvalidEvent("version", "must be one of the event's type")
        shape.check(event.attributes)
        values = granted.publish(event, size, now)
        lacking = self._setting.vault.lacks(event.type, values, event.time) if values is not None else None
        if lacking is not None or event.sealed is not None:
            known = self._setting.vault.missing(event.type) is not None  # or nobody has said what is sealed
            attribute = shape.attributes.get(lacking or "") if known else None
            name = attribute.name if attribute is not None else "event"
            raise KeysAwaited(name, KEYLESS)
        return values

    def _set_free(
        self, free: dict[tuple[str, str], _Free], session: Session, event: Event, now: float
    ) -> None:
        """The others like this event in its bundle may be published as they are, too."""
        missing = self._setting.vault.missing(event.type)
        if missing is not None:
            check = self._shape(event.version)[1].check
            free[event.type, event.version] = _Free(
                event.type, event.version, session.key.raw, missing, now + WINDOW, check
            )

    def _shape(self, version: str) -> tuple[str, Shape, RunCheck]:
        known = self._shapes.get(version)
        if known is None:
            try:
                definition = self._setting.catalogue.version(version)
            except UnknownType as error:
                raise InvalidEvent("version", str(error)) from None
            attributes = self._setting.catalogue.attributes(version)
            known = definition.id, Shape(attributes), RunCheck(definition.id, version, attributes)
            self._shapes[version] = known
        return known


def _reason(error: InvalidEvent) -> str:
    """By which a refused event is counted."""
    if isinstance(error, _Barred):
        return error.reason
    return "keys" if isinstance(error, KeysAwaited) else "type"


def _id(session: Session, bundle: Bundle) -> bytes:
    """By which the stream knows a bundle: what others publish has other ids."""
    return bundle.id and session.key.raw + bundle.id

"""What a broker does with its keys: seal what it passes on, open what it is sent, and say what it can read.

Invariant: no value of a sealed attribute leaves the broker for another unless under the keys of its group. While the
keys of a sealed type are not here, nothing of it is passed on at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from authz import PublicKey
from authz.errors import UNREADABLE
from authz.predicate import TRUE, Predicate
from pubsub_core.events.column_cipher import decode as decode_columns
from pubsub_core.events.column_cipher import open_columns, seal_columns
from pubsub_core.events.event import Event
from pubsub_core.keys import (
    Binding,
    CannotOpen,
    KeyAwaited,
    KeyMissing,
    KeyRing,
    Opener,
    Plan,
    Sealed,
    SealedFilter,
    Sealer,
    open_box,
    open_filter,
    read_box,
    seal_box,
    seal_filter,
)

NOTHING = Plan(())
"""The plan of a type that is not known to be sealed."""
_encode = msgspec.msgpack.Encoder().encode


class EventCipher:
    """The keys of one broker, and the plans of the types that are sealed."""

    def __init__(self, ring: KeyRing, sealed: Collection[str] = ()) -> None:
        """`sealed` are the UUIDs of types that must not travel in clear."""
        self.ring = ring
        self.sealed = set(sealed)
        self.asked: set[str] = set()
        """The types whose keys are asked for: of these, what cannot be read now may be read later."""
        self.on_sealed: list[Callable[[], None]] = []
        """Called when more types turn out to be sealed."""
        self.refusals: dict[str, str] = {}
        """Why there are no keys here, for each type of which that was said."""
        self.confirmed: dict[str, float] = {}
        """When the manager of a type's keys was last asked, and gave all that there are."""
        self._plans: dict[str, Plan] = {}
        self._former: dict[str, tuple[Plan, Opener, float]] = {}
        """The plan before, for each type, and until when others may still go by it."""
        self._sealers: dict[str, Sealer] = {}
        self._openers: dict[str, Opener] = {}
        self._missing: dict[str, frozenset[str]] = {}
        """The attributes of each sealed type that cannot be sealed or read here."""
        self._since: dict[str, float] = {}
        """From when on there are keys of all groups of a type that are held here."""
        self._revision = -1

    @property
    def keyless(self) -> set[str]:
        """The types that are sealed and whose keys are not asked for."""
        return self.sealed - self.asked

    def mark_sealed(self, types: Iterable[str]) -> None:
        """Have types travel sealed or not at all."""
        before = len(self.sealed)
        self.sealed.update(types)
        if len(self.sealed) > before:
            for tell in self.on_sealed:
                tell()

    def learn(self, type_: str, plan: Plan, grace: float = -math.inf) -> bool:
        """Seal a type by this plan from now on; whether that is another than before.

        What others seal by the plan before is opened until `grace`.
        """
        before = self._plans.get(type_)
        if before == plan:
            return False
        if before is not None:
            self._former[type_] = before, self._openers[type_], grace
        self.sealed.add(type_)
        self._plans[type_] = plan
        self._sealers[type_] = Sealer(plan, self.ring)
        self._openers[type_] = Opener(plan, self.ring)
        self._revision = -1
        return True

    def lacks(self, type_: str, values: Mapping[str, object], at: float) -> str | None:
        """An attribute among these that cannot be sealed here for this time, or "" if none can; None if all can."""
        if type_ not in self.sealed:
            return None
        if type_ not in self._plans:
            return next(iter(values), "")
        missing = self._unreadable(type_)
        if not self._since[type_] <= at < math.inf:
            return ""
        if missing.isdisjoint(values):
            return None
        return next((each for each in missing if values.get(each) is not None), None)

    def missing(self, type_: str) -> frozenset[str] | None:
        """The attributes of a type that cannot be sealed here; None if that is so of all."""
        if type_ not in self.sealed:
            return frozenset()
        return self._unreadable(type_) if type_ in self._plans else None

    def readable(self, type_: str, attributes: Iterable[str]) -> frozenset[str]:
        """Those of a type's attributes that can be read here."""
        if type_ not in self.sealed:
            return frozenset(attributes)
        return frozenset(attributes) - self._unreadable(type_) if type_ in self._plans else frozenset()

    def refusal(self, type_: str, attributes: Iterable[str]) -> str:
        """Why nothing of a type's attributes can be read here, if that was said."""
        problem = self.refusals.get(type_, "")
        return problem if problem and not self.readable(type_, attributes) else ""

    def reads(self, type_: str) -> bool:
        """Whether there are keys here for anything of a sealed type."""
        return any(self.ring.holds(each.id) for each in self.plan(type_).groups)

    def expire(self, now: float) -> None:
        """Forget the plans that nobody uses any more."""
        self._former = {type_: each for type_, each in self._former.items() if now < each[2]}

    def _unreadable(self, type_: str) -> frozenset[str]:
        if self._revision != self.ring.revision:
            self._revision = self.ring.revision
            self._missing.clear()
        missing = self._missing.get(type_)
        if missing is None:
            held = [self.ring.of(group.id) for group in self._plans[type_].groups]
            begun = (keys.begins(-math.inf) for keys in held if keys is not None)
            self._since[type_] = max(begun, default=-math.inf) - self.ring.skew
            groups = (group for group in self._plans[type_].groups if not self.ring.holds(group.id))
            missing = self._missing[type_] = frozenset(each for group in groups for each in group.attributes)
        return missing

    def seal(self, event: Event) -> Event:
        """The event as brokers with fewer keys may have it. Raises KeyMissing."""
        plan = self._plans.get(event.type)
        if plan is None:
            raise KeyMissing(event.type)
        values = event.attributes
        sealed = self._sealers[event.type].seal(_binding(event), values)
        clear = {each: values[each] for each in plan.clear(values)}
        return Event(event.type, event.version, event.publisher, event.time, event.sequence, clear, sealed)

    def open(self, event: Event, sender: str = "") -> Event:
        """The event with all that can be read here; `sender` is the key of the broker that has sealed it.

        Raises CannotOpen if it is not rightly sealed, or KeyAwaited if what it takes may be on its way.
        """
        if event.sealed is None:
            if event.type in self.sealed:
                raise CannotOpen
            return event
        plan, opener = self._opener_of(event.type, event.sealed, sender)
        if plan is NOTHING:
            return msgspec.structs.replace(event, sealed=None)
        opened = opener.open(_binding(event), event.sealed, event.attributes)
        values = opened.all()
        if opened.broken:
            raise CannotOpen
        return Event(event.type, event.version, event.publisher, event.time, event.sequence, values)

    def seal_many(self, events: Sequence[Event]) -> bytes | None:
        """Events of one type as brokers with fewer keys may have them; None if they must be sealed one by one.

        Raises KeyMissing.
        """
        type_ = events[0].type
        if type_ not in self._plans:
            raise KeyMissing(type_)
        columns = seal_columns(events, self._plans[type_], self._sealers[type_])
        return _encode(columns) if columns is not None else None

    def open_many(self, data: bytes, sender: str = "") -> list[Event]:
        """What `seal_many` made, with all that can be read here. Raises CannotOpen or KeyAwaited."""
        try:
            columns = decode_columns(data)
        except UNREADABLE:
            raise CannotOpen from None
        return open_columns(columns, *self._opener_of(columns.type, columns.sealed, sender))

    def _opener_of(self, type_: str, sealed: Sealed, sender: str) -> tuple[Plan, Opener]:
        """By which plan something was sealed, and what opens it. Raises KeyAwaited or CannotOpen."""
        if self.ring.departures and self.ring.has_left(sender, sealed.keys):
            raise CannotOpen
        plan, opener = self._plans.get(type_, NOTHING), self._openers.get(type_)
        if opener is not None and opener.is_ready(sealed):
            return plan, opener
        expected = type_ in self.asked and type_ not in self.refusals
        former, keys = self._former.get(type_), dict(sealed.keys)
        if (
            former is not None
            and not keys.keys() <= plan.by_id.keys()
            and keys.keys() <= former[0].by_id.keys()
        ):
            return former[0], former[1]
        unknown = opener is None or not keys.keys() <= plan.by_id.keys() or not self.reads(type_)
        if (unknown and expected) or self._is_newer(keys):
            raise KeyAwaited(type_)
        return plan, opener or Opener(NOTHING, self.ring)

    def _is_newer(self, keys: Mapping[str, int]) -> bool:
        """Whether something is sealed under a key that follows those that are here."""
        held = ((self.ring.of(group), epoch) for group, epoch in keys.items())
        return any(own is not None and epoch > own.newest for own, epoch in held)

    def plan(self, type_: str) -> Plan:
        """How a type is sealed; if it is not, a plan without key groups."""
        return self._plans.get(type_, NOTHING)

    def equal(self, type_: str, groups: Collection[str]) -> bool:
        """Whether whoever holds the keys of these groups can read whatever we seal of a type, as we can."""
        plan = self._plans.get(type_)
        return plan is not None and all(each in groups and self.ring.holds(each) for each in plan.by_id)

    def seal_box(self, type_: str, at: float, sender: bytes, messages: Sequence[bytes]) -> bytes:
        """Messages of a type that travels at a steady pace, or none, in one box. Raises KeyMissing."""
        plan = self._plans.get(type_)
        groups = [each.id for each in plan.groups if self.ring.holds(each.id)] if plan is not None else []
        if not groups:
            raise KeyMissing(type_)
        return seal_box(_box_binding(type_, at, sender), groups, self._sealers[type_], messages)

    def open_box(self, type_: str, data: bytes, sender: str) -> list[bytes]:
        """What is in a box, whose sender is given by its key. Raises CannotOpen, or KeyAwaited."""
        box, plan = read_box(data), self._plans.get(type_, NOTHING)
        keys = dict(key for each in box.keys for key in each.keys)
        expected = type_ in self.asked and type_ not in self.refusals
        if (expected and not any(map(self.ring.holds, keys))) or self._is_newer(keys):
            raise KeyAwaited(type_)
        binding = _box_binding(type_, box.time, PublicKey.parse(sender).raw)
        return open_box(box, binding, plan, self.ring, sender)

    def seal_filters(
        self, type_: str, filters: Iterable[Predicate], publisher: bytes, at: float
    ) -> tuple[SealedFilter, ...]:
        """Filters as other brokers may have them. Those about what we cannot read ask for everything."""
        plan, sealer = self._plans.get(type_), self._sealers.get(type_)
        if plan is None or sealer is None:
            return ()
        made = []
        for number, each in enumerate(filters):
            binding = Binding(type_, type_, publisher, at, number, "filter")
            try:
                made.append(seal_filter(each, plan, sealer, binding))
            except KeyMissing:
                made.append(SealedFilter(binding))
        return tuple(made)

    def open_filters(
        self, type_: str, sealed: Iterable[SealedFilter], publisher: bytes
    ) -> tuple[Predicate, ...]:
        """What of another broker's filters can be read here; what cannot asks for everything."""
        plan, sender = self._plans.get(type_), str(PublicKey(publisher))
        if plan is None:
            return (TRUE,)
        return tuple(
            open_filter(each, plan, self.ring, sender).known
            for each in sealed
            if (each.binding.type, each.binding.publisher, each.binding.purpose)
            == (type_, publisher, "filter")
        )


def _binding(event: Event) -> Binding:
    return Binding(event.type, event.version, event.publisher, event.time, event.sequence)


def _box_binding(type_: str, at: float, sender: bytes) -> Binding:
    return Binding(type_, type_, sender, at, 0, "box")

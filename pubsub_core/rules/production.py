"""What becomes of an event under transformation rules: for each type that they name, one event that fits it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeAlias

from authz.predicate import Path, Scalar
from authz.rules import Call
from pubsub_core.catalogue import Catalogue
from pubsub_core.errors import UnknownType
from pubsub_core.event import Event, Shape
from pubsub_core.event_type import Attribute, EventType
from pubsub_core.rules.context import Calling, Context
from pubsub_core.rules.interaction import Change
from pubsub_core.rules.library import InvalidStep, make_step
from pubsub_core.rules.transformation import (
    Kinds,
    Scene,
    Step,
    Untransformable,
    Values,
    kind_of,
    reshape,
)
from pubsub_core.type_mapping import Reader, reader

MOST_PLANS = 1024


@dataclass(frozen=True, slots=True)
class _Plan:
    """How events of one version become events of another type."""

    kept: Mapping[str, str]
    """The attributes that stay as they are, with the UUIDs that they have there."""
    altered: Mapping[str, str]
    """Those that steps speak of, or that fit nothing there, with their names."""
    converted: Reader | None
    """Finds, of these, the ones that the event's version types otherwise."""
    steps: tuple[Step, ...]
    type: str
    version: str
    shape: Shape

    def sort(self, values: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """An event's values: those that stay, by UUID, and those that do not, by name."""
        stays: dict[str, object] = {}
        goes: dict[str, object] = {}
        kept, altered = self.kept, self.altered
        for id_, value in values.items():
            if value is not None:
                if id_ in kept:
                    stays[kept[id_]] = value
                elif id_ in altered:
                    goes[altered[id_]] = value
        if self.converted is not None:
            goes.update(self.converted(values))
        return stays, goes


class _Last(NamedTuple):
    """What was done last, which is at hand since many events are alike. It keeps the rules alive."""

    changes: Sequence[Change]
    version: str
    """Of the event."""
    revision: int
    """Of the definitions."""
    plan: _Plan


_Key: TypeAlias = tuple[str, str, str, tuple[int, ...]]


class Production:
    """Makes events of other types."""

    def __init__(self, catalogue: Catalogue, secret: bytes, context: Context) -> None:
        self._catalogue = catalogue
        self._secret = secret
        self._context = context
        self._plans: dict[_Key, _Plan] = {}
        self._last: _Last | None = None

    def produce(self, event: Event, changes: Sequence[Change]) -> tuple[Event, ...]:
        """The events that these rules, in their order, make of one, by the names of their types. Raises EventError."""
        if len(changes) == 1:
            return (self._made(event, changes[0].to, changes),)
        by_type = sorted(changes, key=lambda each: each.to)  # which keeps the order among those to one type
        return tuple(self._made(event, to, list(some)) for to, some in groupby(by_type, lambda each: each.to))

    def _made(self, event: Event, to: str, changes: Sequence[Change]) -> Event:
        last, version = self._last, event.version
        if (
            last is None
            or last.changes is not changes
            or last.version != version
            or last.revision != self._catalogue.revision
        ):
            plan = self._find_plan(version, changes)
            last = self._last = _Last(changes, version, self._catalogue.revision, plan)
        plan = last.plan
        stays, goes = plan.sort(event.attributes)
        scene = Scene(event.publisher, event.sequence, self._secret, self._context.look_up)
        try:
            for step in plan.steps:
                step.apply(goes, scene)
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise Untransformable(to, f"cannot be made of this event: {error}") from None
        if goes:
            stays |= plan.shape.by_id(goes)
        return Event(plan.type, plan.version, event.publisher, event.time, event.sequence, stays)

    def _find_plan(self, version: str, changes: Sequence[Change]) -> _Plan:
        catalogue = self._catalogue
        source, to = catalogue.named(changes[0].source), catalogue.named(changes[0].to)
        # By which objects they are: those of a judge live as long as this, and two rules may have one name.
        key = version, source.version, to.version, tuple(map(id, changes))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._new_plan(catalogue.attributes(version), source, to, changes)
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _new_plan(
        self, written: Mapping[str, Attribute], source: EventType, to: EventType, changes: Iterable[Change]
    ) -> _Plan:
        catalogue, names = self._catalogue, self._catalogue.names(to.version)
        calls = tuple(call for each in changes for call in each.steps)
        known, touched = catalogue.attributes(source.version), _touched(calls)
        steps = tuple(make(call, self._context.functions) for call in calls)
        reshape(steps, {each.name: each.type for each in known.values()})
        same = {id_: each for id_, each in known.items() if id_ in written and written[id_].type is each.type}
        kept = {
            id_: names[each.name].id for id_, each in same.items()
            if each.name not in touched and each.name in names and names[each.name].type is each.type
        }  # fmt: skip
        altered = {id_: each.name for id_, each in same.items() if id_ not in kept}
        others = {id_: each for id_, each in known.items() if id_ in written and id_ not in same}
        converted = reader(written, others) if others else None
        shape = Shape(catalogue.attributes(to.version))
        return _Plan(kept, altered, converted, steps, to.id, to.version, shape)


def _touched(calls: Iterable[Call]) -> set[str]:
    """The attributes, by name, that these steps speak of."""
    return {str(path.keys[0]) for call in calls for path in call.arguments if isinstance(path, Path)}


@dataclass(frozen=True, slots=True)
class Apply(Step):
    """An attribute gets the value that a function of the broker's makes of it, and of what else it is given."""

    name: str
    function: str
    arguments: tuple[Path | Scalar, ...]
    functions: Calling

    def apply(self, values: Values, scene: Scene) -> None:
        given = [values.get(str(each.keys[0])) if isinstance(each, Path) else each for each in self.arguments]
        result = self.functions.call(self.function, given)
        values.pop(self.name, None)
        if result is not None:
            values[self.name] = result

    def reshape(self, kinds: Kinds) -> None:
        """What type the result has is seen when there is one."""
        for each in self.arguments:
            if isinstance(each, Path):
                kind_of(kinds, str(each.keys[0]))


def make(call: Call, functions: Calling) -> Step:
    """The step that a call stands for: of the library, or a function of the broker's. Raises InvalidStep."""
    if call.name not in functions:
        return make_step(call)
    given = tuple(each for each in call.arguments if not isinstance(each, Call))
    if not given or len(given) < len(call.arguments) or not isinstance(given[0], Path):
        raise InvalidStep(call, f"does not fit: write {call.name}(attribute, ...)")
    return Apply(str(given[0].keys[0]), call.name, given, functions)


def altered(changes: Iterable[Change], catalogue: Catalogue, id_: str) -> frozenset[str]:
    """The attributes, by UUID, of a type that these rules do not all leave as they are."""
    attributes = catalogue.attributes(catalogue.newest(id_).version)
    kept = set(attributes)
    for each in changes:
        touched = _touched(each.steps)
        try:
            names = catalogue.names(catalogue.named(each.to).version)
        except UnknownType:
            return frozenset(attributes)
        kept = {
            id_ for id_ in kept
            if (name := attributes[id_].name) not in touched
            and name in names and names[name].type is attributes[id_].type
        }  # fmt: skip
    return frozenset(attributes.keys() - kept)

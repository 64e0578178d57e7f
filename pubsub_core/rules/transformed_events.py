"""What becomes of an event under transformation rules: for each type that they name, one event that fits it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple, TypeAlias, cast

from authz.predicate import Path, Scalar
from authz.rules import Call
from pubsub_core.errors import UnknownType
from pubsub_core.events import Event, Shape
from pubsub_core.rules.context import Calling, Context
from pubsub_core.rules.interaction import Change
from pubsub_core.rules.program import Program, Transformed
from pubsub_core.rules.transformation import Kinds, Scene, Step, Untransformable, kind_of, reshape
from pubsub_core.rules.transformation_steps import InvalidStep, make_step
from pubsub_core.types import Attribute, AttributeType, Catalogue, EventType, reader

MOST_PLANS = 1024


class _Last(NamedTuple):
    """What was done last, which is at hand since many events are alike. It keeps the rules alive."""

    changes: Sequence[Change]
    version: str
    """Of the event."""
    revision: int
    """Of the definitions."""
    transform: Transformed


_Key: TypeAlias = tuple[str, str, str, tuple[int, ...]]


class Production:
    """Makes events of other types."""

    def __init__(self, catalogue: Catalogue, secret: bytes, context: Context) -> None:
        self._catalogue = catalogue
        self._context = context
        self._scene = Scene(secret, context.look_up)
        self._plans: dict[_Key, Transformed] = {}
        """How events of one version become events of another type."""
        self._last: _Last | None = None

    def produce(self, event: Event, changes: Sequence[Change]) -> tuple[Event, ...]:
        """The events that these rules, in their order, make of one, by the names of their types. Raises EventError."""
        if len(changes) == 1:
            return (self._made(event, changes[0].to, changes),)
        by_type = sorted(changes, key=lambda each: each.to)  # which keeps the order among those to one type
        return tuple(self._made(event, to, list(some)) for to, some in groupby(by_type, lambda each: each.to))

    def produce_all(self, events: Sequence[Event | None], changes: Sequence[Change]) -> list[Event | None]:
        """The same for events of one version, by one rule. Raises whatever one of them leads to."""
        transform = next((self._plan(each.version, changes) for each in events if each is not None), None)
        return [None] * len(events) if transform is None else transform(events)

    def _made(self, event: Event, to: str, changes: Sequence[Change]) -> Event:
        transform = self._plan(event.version, changes)
        try:
            (made,) = transform((event,))
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise Untransformable(to, f"cannot be made of this event: {error}") from None
        return cast("Event", made)

    def _plan(self, version: str, changes: Sequence[Change]) -> Transformed:
        last = self._last
        if (
            last is None
            or last.changes is not changes
            or last.version != version
            or last.revision != self._catalogue.revision
        ):
            plan = self._find_plan(version, changes)
            last = self._last = _Last(changes, version, self._catalogue.revision, plan)
        return last.transform

    def _find_plan(self, version: str, changes: Sequence[Change]) -> Transformed:
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
    ) -> Transformed:
        calls = tuple(call for each in changes for call in each.steps)
        known = self._catalogue.attributes(source.version)
        steps = tuple(make(call, self._context.functions) for call in calls)
        reshape(steps, {each.name: each.type for each in known.values()})
        program = Program()
        kinds = _load(program, written, known)
        for step in steps:
            step.emit(program, self._scene)
        untouched = {name: kind for name, kind in kinds.items() if name not in _touched(calls)}
        _store(program, self._catalogue.attributes(to.version), untouched)
        return program.function(to.id, to.version)


def _load(
    program: Program, written: Mapping[str, Attribute], known: Mapping[str, Attribute]
) -> dict[str, AttributeType]:
    """Begin with an event's values, converted where its version types them otherwise; the types of those that are not.

    `written` are the attributes of the event's version, `known` those that rules speak of.
    """
    common = {id_: each for id_, each in known.items() if id_ in written}
    converted = {id_: each for id_, each in common.items() if written[id_].type is not each.type}
    same = {each.name: each for id_, each in common.items() if id_ not in converted}
    for name, each in same.items():
        program.load(name, each.id)
    if converted:
        program.load_all([each.name for each in converted.values()], reader(written, converted))
    return {name: each.type for name, each in same.items()}


def _store(
    program: Program, attributes: Mapping[str, Attribute], untouched: Mapping[str, AttributeType]
) -> None:
    """End with what fits these attributes. Values that nothing was done to fit where the types are the same."""
    shape, named = Shape(attributes), {each.name: each for each in attributes.values()}
    for name in program.names:
        if name not in named:
            program.refuse(name, partial(shape.by_id, {name: None}))
        else:
            to = named[name]
            program.store(name, to.id, None if untouched.get(name) is to.type else shape.checker(to.id))


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

    def emit(self, program: Program, scene: Scene) -> None:
        operands = [str(each.keys[0]) for each in self.arguments if isinstance(each, Path)]
        program.compute(self.name, self._result, *operands)

    def _result(self, *values: object) -> object:
        rest = iter(values)
        given = [next(rest) if isinstance(each, Path) else each for each in self.arguments]
        return self.functions.call(self.function, given)

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

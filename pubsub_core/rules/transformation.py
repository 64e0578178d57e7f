"""What rules do to an event before somebody sees it: attributes left out, blurred, renamed, or taken from elsewhere.

Steps act by name, one after the other, in a program that is made of them. A value that a step cannot work on makes the
event undeliverable rather than let it pass as it is. Noise and pseudonyms follow from the event and a secret of the
broker: the same event has the same noise however often it is replayed, so that asking again does not average it away.
"""

from __future__ import annotations

import hmac
import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from authz.predicate import Scalar
from pubsub_core.errors import EventError
from pubsub_core.events import Event
from pubsub_core.rules.program import Program
from pubsub_core.types import CONVERSIONS, AttributeType

Kinds: TypeAlias = MutableMapping[str, AttributeType]
LookUp: TypeAlias = Callable[[str, Scalar], Mapping[str, Scalar] | None]
"""The row of a context table for a key."""

_NUMBERS = frozenset({AttributeType.INTEGER, AttributeType.FLOAT, AttributeType.TIMESTAMP})


class Untransformable(EventError):
    """An event that a rule says to transform, and that cannot be: it is not delivered."""

    def __init__(self, attribute: str, problem: str) -> None:
        super().__init__(f"`{attribute}` {problem}")
        self.attribute = attribute
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Scene:
    """What transformations at one broker may know besides the event."""

    secret: bytes
    look_up: LookUp

    def draw(self, use: str, *about: object) -> bytes:
        """Bytes that look random to whoever does not have the secret."""
        text = "\0".join([use, *map(repr, about)]).encode()
        return hmac.digest(self.secret, text, "sha256")


class Step(ABC):
    """One thing that is done to the values of an event."""

    @abstractmethod
    def emit(self, program: Program, scene: Scene) -> None:
        """Have a program do it. What is then called raises Untransformable for a value that does not fit."""

    @abstractmethod
    def reshape(self, kinds: Kinds) -> None:
        """Alter what types the attributes have. Raises Untransformable if the step does not fit them."""


@dataclass(frozen=True, slots=True)
class Drop(Step):
    """Leave attributes out."""

    names: tuple[str, ...]

    def emit(self, program: Program, scene: Scene) -> None:
        for name in self.names:
            program.clear(name)

    def reshape(self, kinds: Kinds) -> None:
        for name in self.names:
            kind_of(kinds, name)
            del kinds[name]


@dataclass(frozen=True, slots=True)
class Blank(Drop):
    """Keep attributes, without a value."""

    def reshape(self, kinds: Kinds) -> None:
        for name in self.names:
            kind_of(kinds, name)


@dataclass(frozen=True, slots=True)
class Bucket(Step):
    """A number becomes the label of the range it lies in: below the first bound, the second, and so on."""

    name: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...]

    def emit(self, program: Program, scene: Scene) -> None:
        program.change(self.name, self._label)

    def _label(self, value: object, event: Event) -> str:
        return self.labels[bisect_right(self.bounds, _number(value, self.name))]

    def reshape(self, kinds: Kinds) -> None:
        kind_of(kinds, self.name, *_NUMBERS)
        kinds[self.name] = AttributeType.STRING


@dataclass(frozen=True, slots=True)
class Round(Step):
    """A number, or a time, becomes the nearest multiple below it."""

    name: str
    unit: float

    def emit(self, program: Program, scene: Scene) -> None:
        program.change(self.name, self._lower)

    def _lower(self, value: object, event: Event) -> float | int:
        if value.__class__ is int:
            return int(math.floor(value / self.unit) * self.unit)
        return float(math.floor(_number(value, self.name) / self.unit) * self.unit)

    def reshape(self, kinds: Kinds) -> None:
        kind_of(kinds, self.name, *_NUMBERS)


@dataclass(frozen=True, slots=True)
class Perturb(Step):
    """A number moves up or down, within a bound."""

    name: str
    most: float

    def emit(self, program: Program, scene: Scene) -> None:
        program.change(self.name, partial(self._moved, scene))

    def _moved(self, scene: Scene, value: object, event: Event) -> float | int:
        number = _number(value, self.name)
        name = event.publisher, event.sequence, event.time
        # Of its own for each bound: from two that are proportional the value could be told.
        drawn = int.from_bytes(scene.draw("perturb", name, self.name, self.most)[:7])
        noise = (drawn / (1 << 55) - 1) * self.most
        return number + math.trunc(noise) if isinstance(number, int) else number + noise

    def reshape(self, kinds: Kinds) -> None:
        kind_of(kinds, self.name, *_NUMBERS)


@dataclass(frozen=True, slots=True)
class Place(Step):
    """A point on the map becomes the corner of the square, of a size in degrees, that it lies in."""

    name: str
    degrees: float

    def emit(self, program: Program, scene: Scene) -> None:
        program.change(self.name, self._corner)

    def _corner(self, point: object, event: Event) -> dict[str, float]:
        if not isinstance(point, Mapping):
            raise Untransformable(self.name, "is no point on the map")
        return {
            axis: round(math.floor(float(point[axis]) / self.degrees) * self.degrees, 9)
            for axis in ("lat", "lon")
        }

    def reshape(self, kinds: Kinds) -> None:
        kind_of(kinds, self.name, AttributeType.GEO)


@dataclass(frozen=True, slots=True)
class Hash(Step):
    """A value becomes a pseudonym: the same for the same value, and for nobody to take back without the secret."""

    name: str

    def emit(self, program: Program, scene: Scene) -> None:
        program.change(self.name, partial(self._pseudonym, scene))

    def _pseudonym(self, scene: Scene, value: object, event: Event) -> str:
        return scene.draw("hash", self.name, value)[:16].hex()

    def reshape(self, kinds: Kinds) -> None:
        kind_of(kinds, self.name)
        kinds[self.name] = AttributeType.STRING


@dataclass(frozen=True, slots=True)
class Rename(Step):
    """An attribute gets another name."""

    name: str
    to: str

    def emit(self, program: Program, scene: Scene) -> None:
        program.move(self.name, self.to)

    def reshape(self, kinds: Kinds) -> None:
        kind = kind_of(kinds, self.name)
        if self.to in kinds:
            raise Untransformable(self.to, "is there already: drop it first")
        del kinds[self.name]
        kinds[self.to] = kind


@dataclass(frozen=True, slots=True)
class Enrich(Step):
    """An attribute from a context table: the column of that name, in the row of this event's key."""

    name: str
    kind: AttributeType
    table: str
    key: str

    def emit(self, program: Program, scene: Scene) -> None:
        program.compute(self.name, partial(self._found, scene), self.name, self.key)

    def _found(self, scene: Scene, before: object, key: object) -> object:
        row = scene.look_up(self.table, key) if isinstance(key, str | int | float | bool) else None
        found = row.get(self.name) if row is not None else None
        return before if found is None else found

    def reshape(self, kinds: Kinds) -> None:
        kind_of(kinds, self.key)
        kinds[self.name] = self.kind


@dataclass(frozen=True, slots=True)
class Retype(Step):
    """A value of one type becomes the same of another, where that loses nothing."""

    name: str
    kind: AttributeType

    def emit(self, program: Program, scene: Scene) -> None:
        program.change(self.name, self._converted)

    def _converted(self, value: object, event: Event) -> object:
        convert = CONVERSIONS.get((_kind(value), self.kind))
        return value if convert is None else convert(value)

    def reshape(self, kinds: Kinds) -> None:
        was = kind_of(kinds, self.name)
        if was is not self.kind and (was, self.kind) not in CONVERSIONS:
            raise Untransformable(self.name, f"is a {was}, which does not become a {self.kind} without loss")
        kinds[self.name] = self.kind


def reshape(steps: Sequence[Step], kinds: Mapping[str, AttributeType]) -> dict[str, AttributeType]:
    """The attributes that an event has after all steps. Raises Untransformable where a step does not fit."""
    result = dict(kinds)
    for step in steps:
        step.reshape(result)
    return result


def kind_of(kinds: Mapping[str, AttributeType], name: str, *wanted: AttributeType) -> AttributeType:
    kind = kinds.get(name)
    if kind is None:
        raise Untransformable(name, f"is not there: there are {', '.join(map('`{}`'.format, kinds))}")
    if wanted and kind not in wanted:
        raise Untransformable(name, f"is a {kind}, not a {' or '.join(sorted(wanted))}")
    return kind


def _number(value: object, name: str) -> float | int:
    kind = value.__class__
    if kind is int or kind is float:
        return value  # type: ignore[return-value]
    raise Untransformable(name, "is no number")


def _kind(value: object) -> AttributeType:
    match value:
        case bool():
            return AttributeType.BOOLEAN
        case int():
            return AttributeType.INTEGER
        case float():
            return AttributeType.FLOAT
    return AttributeType.STRING

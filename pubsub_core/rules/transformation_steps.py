"""The steps that rules can name: `drop(patient_id)`, `bucket(pulse, 'low', 50, 'normal', 110, 'high')`, and so on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TypeAlias

from authz.predicate import Path
from authz.rules import Call
from authz.rules.terms import Argument, read_interval
from pubsub_core.errors import EventError
from pubsub_core.rules.transformation import (
    Blank,
    Bucket,
    Drop,
    Enrich,
    Hash,
    Perturb,
    Place,
    Rename,
    Retype,
    Round,
    Step,
)
from pubsub_core.types import AttributeType

Maker: TypeAlias = Callable[["_Arguments"], Step]


class InvalidStep(EventError):
    """A step that cannot be done: `call` is how it was written, `problem` what would be right."""

    def __init__(self, call: Call, problem: str) -> None:
        super().__init__(f"`{call}` {problem}")
        self.call = call
        self.problem = problem


def make_step(call: Call) -> Step:
    """The step that a call stands for. Raises InvalidStep."""
    if call.name not in LIBRARY:
        raise InvalidStep(call, f"is unknown: there are {', '.join(LIBRARY)}")
    usage, make = LIBRARY[call.name]
    arguments = _Arguments(call, usage)
    step = make(arguments)
    arguments.end()
    return step


class _Arguments:
    """What a call was given, taken one by one."""

    def __init__(self, call: Call, usage: str) -> None:
        self._call = call
        self._usage = usage
        self._rest = list(call.arguments)

    def attribute(self) -> str:
        given = self._next()
        if not isinstance(given, Path) or given.root != "event" or len(given.keys) != 1:
            raise self._wrong()
        return str(given.keys[0])

    def attributes(self) -> tuple[str, ...]:
        names = [self.attribute()]
        while self._rest:
            names.append(self.attribute())
        return tuple(names)

    def above_zero(self) -> float:
        given = self.number()
        if given <= 0:
            raise self._wrong()
        return given

    def number(self) -> float:
        given = self._next()
        if not isinstance(given, int | float) or isinstance(given, bool):
            raise self._wrong()
        return given

    def text(self) -> str:
        given = self._next()
        if not isinstance(given, str):
            raise self._wrong()
        return given

    def kind(self) -> AttributeType:
        try:
            return AttributeType(self.text())
        except ValueError:
            raise self._wrong() from None

    def seconds(self) -> int:
        try:
            return read_interval(self.text())
        except (ValueError, KeyError):
            raise self._wrong() from None

    def ranges(self) -> tuple[tuple[float, ...], tuple[str, ...]]:
        """Labels with rising bounds between them."""
        labels, bounds = [self.text()], list[float]()
        while self._rest:
            bounds.append(self.number())
            labels.append(self.text())
        if not bounds or any(low >= high for low, high in pairwise(bounds)):
            raise self._wrong()
        return tuple(bounds), tuple(labels)

    def end(self) -> None:
        if self._rest:
            raise self._wrong()

    def _next(self) -> Argument:
        if not self._rest:
            raise self._wrong()
        return self._rest.pop(0)

    def _wrong(self) -> InvalidStep:
        return InvalidStep(self._call, f"does not fit: write {self._usage}")


LIBRARY: Mapping[str, tuple[str, Maker]] = {
    "drop": ("drop(attribute, ...)", lambda given: Drop(given.attributes())),
    "null": ("null(attribute, ...)", lambda given: Blank(given.attributes())),
    "bucket": (
        "bucket(attribute, 'label', bound, 'label', ...) with rising bounds",
        lambda given: Bucket(given.attribute(), *given.ranges()),
    ),
    "round": ("round(attribute, unit)", lambda given: Round(given.attribute(), given.above_zero())),
    "perturb": ("perturb(attribute, most)", lambda given: Perturb(given.attribute(), given.above_zero())),
    "place": ("place(attribute, degrees)", lambda given: Place(given.attribute(), given.above_zero())),
    "period": ("period(attribute, '1 hour')", lambda given: Round(given.attribute(), given.seconds())),
    "hash": ("hash(attribute)", lambda given: Hash(given.attribute())),
    "rename": ("rename(attribute, new_name)", lambda given: Rename(given.attribute(), given.attribute())),
    "enrich": (
        "enrich(new_attribute, 'type', 'table', key_attribute)",
        lambda given: Enrich(given.attribute(), given.kind(), given.text(), given.attribute()),
    ),
    "retype": ("retype(attribute, 'type')", lambda given: Retype(given.attribute(), given.kind())),
    "keep": ("keep()", lambda given: Drop(())),
}
"""By name: how it is written, and what makes it."""

"""The steps of a transformation as one Python function of events: values come in by UUID and go out by UUID.

Between the two they have names, which exist only while the function is made: each is a local variable of it. As with
predicates, no text of a rule becomes code: names and constants enter as closure variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, cast

from authz.predicate.compiler import EVENT as LAYOUT
from authz.predicate.compiler import Emitter
from pubsub_core.events import Event
from pubsub_core.types import Reader

Transformed: TypeAlias = Callable[[Sequence[Event | None]], list[Event | None]]
"""Transforms events; None stays None."""


class Program:
    """A function in the making. What is missing is None, and comes out as missing."""

    def __init__(self) -> None:
        self._emitter = Emitter(LAYOUT)
        self._lines: list[str] = []
        self._variables: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All that were spoken of, whether or not they have a value in the end."""
        return tuple(self._variables)

    def load(self, name: str, id_: str) -> None:
        """Begin with the event's own value."""
        self._lines.append(f"{self._variable(name)} = get({self._emitter.constant(id_)})")

    def load_all(self, names: Iterable[str], read: Reader) -> None:
        """Begin with the values, by name, that something reads from those of the event."""
        self._lines.append(f"read = {self._emitter.constant(read)}(values)")
        for name in names:
            self._lines.append(f"{self._variable(name)} = read.get({self._emitter.constant(name)})")

    def clear(self, name: str) -> None:
        self._lines.append(f"{self._variable(name)} = None")

    def move(self, name: str, to: str) -> None:
        self._lines.append(f"{self._variable(to)} = {self._variable(name)}")
        self.clear(name)

    def change(self, name: str, function: Callable[..., object]) -> None:
        """Apply a function of the value, and of the event, unless there is no value."""
        variable = self._variable(name)
        self._lines.append(
            f"if {variable} is not None: {variable} = {self._call(function, variable, 'event')}"
        )

    def compute(self, name: str, function: Callable[..., object], *operands: str) -> None:
        """Apply a function of the values of other names, missing or not."""
        arguments = map(self._variable, operands)
        self._lines.append(f"{self._variable(name)} = {self._call(function, *arguments)}")

    def store(self, name: str, id_: str, check: Callable[[object], None] | None = None) -> None:
        """End with this value, if there is one; `check` raises if it does not fit."""
        variable, key = self._variable(name), self._emitter.constant(id_)
        tested = "" if check is None else f"{self._call(check, variable)}; "
        self._lines.append(f"if {variable} is not None: {tested}made[{key}] = {variable}")

    def refuse(self, name: str, refuse: Callable[[], object]) -> None:
        """Call `refuse`, which raises, if there is a value in the end."""
        self._lines.append(f"if {self._variable(name)} is not None: {self._call(refuse)}")

    def function(self, type_: str, version: str) -> Transformed:
        """What makes events of this version of a type: one loop, since a call for each costs as much as a step."""
        start = "".join(f"{each} = " for each in self._variables.values())
        kind = ", ".join(map(self._emitter.constant, (type_, version)))
        event = f"{self._emitter.constant(Event)}({kind}, event.publisher, event.time, event.sequence, made)"
        body = [
            "if event is None: add(None); continue",
            "values = event.attributes; get, made = values.get, {}",
            f"{start}None",
            *self._lines,
            f"add({event})",
        ]
        lines = ["found = []; add = found.append", "for event in events:", *(f"  {each}" for each in body)]
        return cast("Transformed", self._emitter.function("events", [*lines, "return found"]))

    def _variable(self, name: str) -> str:
        return self._variables.setdefault(name, f"v{len(self._variables)}")

    def _call(self, function: Callable[..., object], *arguments: str) -> str:
        return f"{self._emitter.constant(function)}({', '.join(arguments)})"

"""What rules speak of besides attributes: facts such as `underInvestigation(nurse_id)`, and moments such as `now()`.

In a condition such a term stands as a path named by its own text. So conditions stay predicates of the one algebra, and
whoever evaluates them says what each term is worth there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from authz.predicate import Equal, Path, Predicate, Scalar, paths
from authz.predicate.filter import write_operand

Argument: TypeAlias = "Path | Scalar | Call"

UNITS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
NOW = "now"
CREDENTIALS = "credentials"
LOOKUP = "lookup"
FLUENT = "fluent"


@dataclass(frozen=True, slots=True)
class Call:
    """A name applied to arguments: a fact, a role, or a step of a transformation."""

    name: str
    arguments: tuple[Argument, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(write_argument, self.arguments))})"

    @property
    def fact(self) -> Predicate:
        """The condition that it holds."""
        return Equal(Path.variable(str(self)), True)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time reckoned from another: `now() - interval '2 hours'`."""

    base: Call = Call(NOW)
    shift: int = 0
    """Seconds, negative for earlier."""

    def __str__(self) -> str:
        if not self.shift:
            return str(self.base)
        return f"{self.base} {'-' if self.shift < 0 else '+'} interval '{write_interval(abs(self.shift))}'"

    @property
    def path(self) -> Path:
        return Path.variable(str(self))


def write_argument(argument: Argument) -> str:
    return str(argument) if isinstance(argument, Call) else write_operand(argument)


def write_interval(seconds: int) -> str:
    """In the largest unit that fits: `90 minutes`."""
    unit, length = next((name, length) for name, length in UNITS.items() if seconds % length == 0)
    count = seconds // length
    return f"{count} {unit}{'' if count == 1 else 's'}"


def read_interval(text: str) -> int:
    """Seconds of a text such as `2 hours`. Raises ValueError."""
    count, _, unit = text.strip().partition(" ")
    seconds = int(count) * UNITS[unit.strip().removesuffix("s")]
    if seconds <= 0:
        raise ValueError(text)
    return seconds


def term_texts(predicate: Predicate) -> set[str]:
    """The texts of all terms that a condition speaks of."""
    return {str(path.keys[0]) for path in paths(predicate) if not path.root}


def map_arguments(call: Call, change: Callable[[Path], Path]) -> Call:
    """The same call about other paths."""
    return Call(call.name, tuple(_changed(each, change) for each in call.arguments))


def _changed(argument: Argument, change: Callable[[Path], Path]) -> Argument:
    if isinstance(argument, Call):
        return map_arguments(argument, change)
    return change(argument) if isinstance(argument, Path) else argument

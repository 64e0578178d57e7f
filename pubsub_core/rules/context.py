"""What rules may ask about besides the event: fluents, tables, functions and the time.

Whoever cannot be asked does not stand for no: what is unknown raises, and the event is withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Protocol, TypeAlias

import msgspec

from authz.predicate import Path, Predicate, Scalar, compile_predicate
from authz.predicate.compiler import Layout
from authz.predicate.filter import EVENT, USER
from authz.rules import Call, Moment, parse_term
from authz.rules.terms import LOOKUP, NOW, Argument, read_interval
from pubsub_core.errors import EventError, InvalidFilter
from pubsub_core.events import Event
from pubsub_core.rules.condition import Known, worth
from pubsub_core.rules.fluents import Fluent, Fluents
from pubsub_core.rules.rates import Rates
from pubsub_core.types import Attribute

PUBLISHED = "published"
"""When the event was published."""
REPLAYED = "replayed"
"""Whether the event is sent as one of the past."""
AT_MOST = "at_most"
"""`at_most(count, 'span', attribute, ...)`: whether so few events with these values were sent to the client lately."""
HOLDS_AT = "holds_at"
"""`holds_at(fluent(...), time)`: whether a fluent held then."""

Row: TypeAlias = Mapping[str, Scalar]


class Unknowable(EventError):
    """Something that a rule asks and that nobody here can tell: what depends on it is withheld."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"`{name}` {problem}")
        self.name = name
        self.problem = problem


class Calling(Protocol):
    """Functions that the broker was given."""

    def __contains__(self, name: object) -> bool: ...

    def call(self, name: str, arguments: Sequence[object]) -> object:
        """Raises Unknowable."""


class NoFunctions:
    """A broker without functions of its own."""

    def __contains__(self, name: object) -> bool:
        return False

    def call(self, name: str, arguments: Sequence[object]) -> object:
        raise Unknowable(name, "is no function that this broker has")


@dataclass(slots=True)
class Context:
    """The state of affairs at one broker. It changes while rules are at work, and they see it as it is."""

    fluents: Fluents = field(default_factory=Fluents)
    defined: Mapping[str, int] = field(default_factory=dict)
    """The fluents that are followed here, with how many things each is about."""
    tables: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    """Rows by their keys, as text, in tables by their names."""
    functions: Calling = field(default_factory=NoFunctions)
    rates: Rates = field(default_factory=Rates)
    """What clients were sent lately under rates."""
    doubted: Collection[str] = ()
    """The fluents of which other brokers may know more, and have not said so yet."""

    def holds(self, name: str, arguments: Sequence[object], at: float) -> bool:
        """Whether a fluent holds; of something that is missing it does not. Raises Unknowable."""
        if self.defined.get(name) != len(arguments):
            count = len(arguments)
            raise Unknowable(name, f"is no fluent of {count} thing{'s' * (count != 1)} that is followed here")
        self.certain(name)
        things = tuple(each for each in arguments if isinstance(each, str | int | float | bool))
        return len(things) == len(arguments) and self.fluents.holds_at(Fluent(name, things), at)

    def certain(self, name: str) -> None:
        """Pass if all that can be known of a fluent is known. Raises Unknowable."""
        if name in self.doubted:
            raise Unknowable(name, "is not known yet: other brokers have not said what they know of it")

    def look_up(self, table: str, key: object) -> Row | None:
        """The row of a table, none for what is missing. Raises Unknowable if there is no such table."""
        if table not in self.tables:
            raise Unknowable(table, "is no context table that this broker has")
        return self.tables[table].get(str(key)) if isinstance(key, str | int | float | bool) else None


class Case(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One event before the rules."""

    event: Event
    now: float
    known: Known
    terms: Mapping[str, Term]
    past: bool = False
    """Whether it is sent as one of the past."""
    uses: list[Callable[[], None]] | None = None
    """What is to be counted if the event is sent; None where nothing is sent by what comes of the rules."""

    def get(self, text: str) -> object:
        """What a term is worth. Raises Unknowable."""
        return self.terms[text](self)


Term: TypeAlias = Callable[[Case], object]
Test: TypeAlias = Callable[[Case], bool]
_LAYOUT: Layout[Case] = Layout({EVENT: "it.event.attributes", "": "it"})


def compile_condition(predicate: Predicate) -> Test:
    """The function that says whether a condition, by UUIDs, holds."""
    return compile_predicate(predicate, _LAYOUT)


def read_term(text: str, names: Mapping[str, Attribute], context: Context) -> Term:
    """What finds out the worth of a term. Raises InvalidFilter."""
    return _moment(_parsed(text), names, context)


_parsed = lru_cache(maxsize=16_384)(parse_term)


def attributes_in(text: str) -> Iterator[str]:
    """The names of the attributes that a term speaks of."""
    calls = [_parsed(text).base]
    for call in calls:
        for each in call.arguments:
            if isinstance(each, Call):
                calls.append(each)
            elif isinstance(each, Path) and each.root == EVENT:
                yield str(each.keys[0])


def _moment(moment: Moment, names: Mapping[str, Attribute], context: Context) -> Term:
    base, shift = _call(moment.base, names, context), moment.shift
    if not shift:
        return base

    def shifted(case: Case) -> object:
        start = base(case)
        return start + shift if isinstance(start, int | float) else None

    return shifted


def _call(call: Call, names: Mapping[str, Attribute], context: Context) -> Term:
    match call:
        case Call(name, ()) if name == NOW:
            return lambda case: case.now
        case Call(name, ()) if name == PUBLISHED:
            return lambda case: case.event.time
        case Call(name, ()) if name == REPLAYED:
            return lambda case: case.past
        case Call(name, (int() as count, str() as span, *by)) if name == AT_MOST:
            return _rate(call, count, span, [read_argument(each, names, context) for each in by], context)
        case Call(name, _) if name in (REPLAYED, AT_MOST):
            raise InvalidFilter(str(call), "is written `replayed()`, or `at_most(1, '1 minute', attribute)`")
        case Call(name, (str() as table, key, str() as column)) if name == LOOKUP:
            return _lookup(table, read_argument(key, names, context), column, context)
        case Call(name, (Call() as fluent, at)) if name == HOLDS_AT:
            return _holds(fluent, read_argument(at, names, context), names, context)
    arguments = [read_argument(each, names, context) for each in call.arguments]

    def fact(case: Case) -> object:
        found = [each(case) for each in arguments]
        if call.name in context.functions:
            return context.functions.call(call.name, found)
        return context.holds(call.name, found, case.now)

    return fact


def _rate(call: Call, count: int, span: str, by: Sequence[Term], context: Context) -> Term:
    try:
        seconds = read_interval(span)
    except (KeyError, ValueError):
        raise InvalidFilter(str(call), "names no span such as '1 minute' or '2 hours'") from None
    rate = str(call)

    def permits(case: Case) -> object:
        if case.uses is None:
            raise Unknowable(AT_MOST, "counts what is sent: it belongs into a RESTRICT or a TRANSFORM")
        client = worth(Path(USER), case.known)
        who = str(client), rate, tuple(each(case) for each in by)
        if not context.rates.permits(who, count, seconds, case.event, case.now):
            return False
        case.uses.append(partial(context.rates.count, who, seconds, case.event, case.now))
        return True

    return permits


def _lookup(table: str, key: Term, column: str, context: Context) -> Term:
    def cell(case: Case) -> object:
        row = context.look_up(table, key(case))
        return row.get(column) if row is not None else None

    return cell


def _holds(fluent: Call, at: Term, names: Mapping[str, Attribute], context: Context) -> Term:
    arguments = [read_argument(each, names, context) for each in fluent.arguments]

    def held(case: Case) -> object:
        moment = at(case)
        known = (
            moment if isinstance(moment, int | float) else None
        )  # a fluent that is unknown raises all the same
        found = context.holds(fluent.name, [each(case) for each in arguments], known or 0.0)
        return found and known is not None

    return held


def read_argument(argument: Argument, names: Mapping[str, Attribute], context: Context) -> Term:
    """What finds out the worth of an argument. Raises InvalidFilter."""
    if isinstance(argument, Call):
        return _call(argument, names, context)
    if not isinstance(argument, Path):
        return lambda case: argument
    if argument.root != EVENT or argument.keys == (USER,):
        path = Path(USER) if argument.root == EVENT else argument
        return lambda case: worth(path, case.known)
    name = str(argument.keys[0])
    if len(argument.keys) != 1 or name not in names:
        there = ", ".join(f"`{each}`" for each in names)
        raise InvalidFilter(name, f"is not an attribute of this type: it has {there}")
    id_ = names[name].id
    return lambda case: case.event.attributes.get(id_)

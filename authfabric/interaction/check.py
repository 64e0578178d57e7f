"""What is wrong with rules as brokers would find them: unknown fluents and functions, steps that do not fit a type."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from authz.predicate import Path, Predicate, comparisons, paths
from authz.predicate.filter import EVENT
from authz.rules import AllowDuring, AutoReplay, Call, FluentRule, Restrict, Rule, Transform, parse_term
from authz.rules.reader import conditions_of
from authz.rules.terms import CREDENTIALS, LOOKUP, NOW, read_interval, term_texts
from pdp.documents import Finding, Kind
from pdp.rules import Interaction
from pubsub_core.errors import EventError, InvalidFilter, UnknownType
from pubsub_core.rules import (
    AT_MOST,
    HOLDS_AT,
    LIBRARY,
    PUBLISHED,
    REPLAYED,
    InvalidStep,
    Step,
    make_step,
    reshape,
)
from pubsub_core.types import Attribute, Catalogue, EventType, bind_filter

BUILT_IN: Mapping[str, tuple[int, str]] = {
    NOW: (0, "now()"),
    PUBLISHED: (0, "published()"),
    REPLAYED: (0, "replayed()"),
    LOOKUP: (3, "lookup('table', key, 'column')"),
    HOLDS_AT: (2, "holds_at(fluent(...), time)"),
    CREDENTIALS: (2, "credentials(user, role)"),
}
"""Terms that every broker knows, with how many arguments they have and how they are written."""

RATE = "at_most(1, '1 minute', attribute, ...)"
"""How a rate is written: as many attributes as it counts by, perhaps none."""
_Remark: TypeAlias = tuple[Kind, str]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What rules may lean on besides each other."""

    functions: Collection[str] = ()
    """Functions that the brokers have been given."""
    types: Catalogue | None = None
    """The types that there are, None if that is not known."""


def check_use(interaction: Interaction, around: Surroundings) -> Iterator[Finding]:
    """Everything found, in the order of the rules."""
    rules = [each for file in interaction.files for each in file.rules]
    fluents = {
        each.body.name: len(each.body.parameters) for each in rules if isinstance(each.body, FluentRule)
    }
    for file in interaction.files:
        for rule in file.rules:
            remarks = [*_terms(rule, fluents, around.functions), *_steps(rule, around.functions)]
            if around.types is not None:
                remarks += _Fitting(around.types, around.functions).remarks(rule)
            for kind, text in dict.fromkeys(remarks):
                yield Finding(kind, file.source, *rule.place, text, file.name(rule))


def _terms(rule: Rule, fluents: Mapping[str, int], functions: Collection[str]) -> Iterator[_Remark]:
    if isinstance(rule.body, AllowDuring) and rule.body.fluent not in fluents:
        yield Kind.UNKNOWN_TERM, _unknown(rule.body.fluent, fluents, ())
    for call in _calls(rule):
        usage = BUILT_IN.get(call.name)
        if call.name == AT_MOST:
            if not _is_rate(call):
                yield Kind.UNKNOWN_TERM, f"`{call}` does not fit: write `{RATE}`"
            elif not isinstance(rule.body, Restrict | Transform):
                yield (
                    Kind.UNKNOWN_TERM,
                    f"`{call}` counts what is sent: it belongs into a RESTRICT or a TRANSFORM",
                )
        elif usage is not None:
            if len(call.arguments) != usage[0]:
                yield Kind.UNKNOWN_TERM, f"`{call}` does not fit: write `{usage[1]}`"
        elif call.name in functions:
            continue
        elif call.name not in fluents:
            yield Kind.UNKNOWN_TERM, _unknown(call.name, fluents, functions)
        elif len(call.arguments) != fluents[call.name]:
            wanted = fluents[call.name]
            text = (
                f"`{call}` is about {len(call.arguments)} things, and the fluent `{call.name}` about {wanted}"
            )
            yield Kind.UNKNOWN_TERM, text


def _is_rate(call: Call) -> bool:
    try:
        count, span, *_ = call.arguments
        return isinstance(count, int) and count > 0 and isinstance(span, str) and bool(read_interval(span))
    except (KeyError, ValueError):
        return False


def _unknown(name: str, fluents: Iterable[str], functions: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, [*fluents, *functions, *BUILT_IN, AT_MOST], 1)
    hint = (
        f"did you mean `{near[0]}`?"
        if near
        else "define it by FLUENT, or name it by --function if brokers have it"
    )
    return f"`{name}` is no fluent and no function: {hint}"


def _calls(rule: Rule) -> Iterator[Call]:
    """Every call in the conditions of a rule, those within others too."""
    terms = sorted(set[str]().union(*map(term_texts, conditions_of(rule.body))))
    calls = [parse_term(text).base for text in terms]
    if isinstance(rule.body, AutoReplay) and rule.body.during is not None:
        calls.append(rule.body.during.fluent)
    for call in calls:
        yield from _nested(call)


def _nested(call: Call) -> Iterator[Call]:
    yield call
    if call.name != CREDENTIALS:  # whose argument is a role
        for each in call.arguments:
            if isinstance(each, Call):
                yield from _nested(each)


def _steps(rule: Rule, functions: Collection[str]) -> Iterator[_Remark]:
    for call in rule.body.steps if isinstance(rule.body, Transform) else ():
        try:
            if call.name not in functions:
                make_step(call)
        except InvalidStep as error:
            hint = "; name it by --function if brokers have it" if call.name not in LIBRARY else ""
            yield Kind.INVALID_STEP, f"{error}{hint}"


class _Fitting:
    """Holds rules against the types that they are about."""

    def __init__(self, types: Catalogue, functions: Collection[str]) -> None:
        self._types = types
        self._functions = functions

    def remarks(self, rule: Rule) -> Iterator[_Remark]:
        body = rule.body
        match body:
            case FluentRule():
                for each in (*body.initiated, *body.terminated):
                    yield from self._about(each.type, [each.where], map(_attribute, each.arguments))
            case AllowDuring():
                return
            case AutoReplay():
                yield from self._about(body.type, [body.where, body.filter], ())
                yield from self._about(body.trigger, [body.trigger_where], ())
            case Restrict():
                yield from self._about(body.type, [body.where, body.filter], ())
            case Transform():
                yield from self._about(body.type, [body.where], ())
                yield from self._transformed(body)
            case _:
                yield from self._about(body.type, [body.where], ())

    def _about(self, name: str, conditions: Iterable[Predicate], more: Iterable[Path]) -> Iterator[_Remark]:
        definition = self._find(name)
        if definition is None:
            yield Kind.UNKNOWN_TYPE, self._no_type(name)
            return
        names = self._types.names(definition.version)
        for path in more:
            yield from _there(path, names, name)
        for condition in conditions:
            yield from _condition(condition, names, name)

    def _transformed(self, body: Transform) -> Iterator[_Remark]:
        source, to = self._find(body.type), self._find(body.to)
        if to is None:
            yield Kind.UNKNOWN_TYPE, self._no_type(body.to)
        if source is None or to is None or any(each.name in self._functions for each in body.steps):
            return
        kinds = {name: each.type for name, each in self._types.names(source.version).items()}
        try:
            result = reshape(_made(body.steps), kinds)
        except EventError as error:
            yield Kind.MISFIT, f"a step does not fit `{body.type}`: {error}"
            return
        wanted = {name: each.type for name, each in self._types.names(to.version).items()}
        for name, kind in result.items():
            if name not in wanted:
                yield (
                    Kind.MISFIT,
                    f"`{name}` is left, and `{body.to}` has no such attribute: drop or rename it",
                )
            elif kind is not wanted[name]:
                yield (
                    Kind.MISFIT,
                    f"`{name}` becomes of type {kind}, and in `{body.to}` it is of type {wanted[name]}: drop it,"
                    " or transform TO a type that has it so",
                )

    def _find(self, name: str) -> EventType | None:
        try:
            return self._types.named(name)
        except UnknownType:
            return None

    def _no_type(self, name: str) -> str:
        known = sorted({each.definition.name for each in self._types})
        near = difflib.get_close_matches(name, known, 1)
        hint = (
            f"did you mean `{near[0]}`?"
            if near
            else f"there are {', '.join(map('`{}`'.format, known)) or 'none'}"
        )
        return f"there is no type `{name}`: {hint}"


def _made(steps: Iterable[Call]) -> list[Step]:
    """Those steps that can be made; of the others it is said already."""
    found = list[Step]()
    for call in steps:
        try:
            found.append(make_step(call))
        except InvalidStep:
            continue
    return found


def _condition(condition: Predicate, names: Mapping[str, Attribute], type_: str) -> Iterator[_Remark]:
    for test in comparisons(condition):
        used = list(paths(test))
        wrong = [remark for path in used for remark in _there(path, names, type_)]
        yield from wrong
        if not wrong and all(path.root == EVENT for path in used):
            try:
                bind_filter(test, names)
            except InvalidFilter as error:
                yield Kind.MISFIT, str(error)


def _there(path: Path, names: Mapping[str, Attribute], type_: str) -> Iterator[_Remark]:
    """Whether the attributes that a path, or a term, speaks of are there."""
    if not path.root:
        for call in _nested(parse_term(str(path.keys[0])).base):
            for each in call.arguments if call.name != CREDENTIALS else ():
                if isinstance(each, Path):
                    yield from _there(each, names, type_)
    elif path.root == EVENT and str(path.keys[0]) not in names:
        near = difflib.get_close_matches(str(path.keys[0]), names, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(map('`{}`'.format, names))}"
        yield Kind.MISFIT, f"`{path.keys[0]}` is not an attribute of `{type_}`: {hint}"


def _attribute(name: str) -> Path:
    return Path(EVENT, (name,))

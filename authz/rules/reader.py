"""Rules from text: what is wrong with it is said with line and column.

What can be said in two ways is read as one: `prescribe.drug_id` in a rule about `prescribe` is its `drug_id`,
`fluent(treating, x)` is `treating(x)`, and `subject.x` is `user.x`.

What is missing opens nothing: in a condition that lets something through (ALLOW, AUTO REPLAY, FILTER) `NOT` of a
comparison with it is false; in one that withholds or alters (RESTRICT, TRANSFORM) it is true.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path as FilePath

from lark import Token, Transformer, v_args
from lark.tree import Meta
from lark.visitors import merge_transformers

from authz.errors import InvalidSyntax
from authz.predicate import TRUE, Path, Predicate, Scalar, depth, map_paths
from authz.predicate.filter import (
    EVENT,
    MAX_FILTER,
    ROOTS,
    USER,
    WORDS,
    FilterReader,
    opening,
    read_constant,
)
from authz.rules.syntax import (
    Allow,
    AllowDuring,
    Asking,
    AutoReplay,
    Body,
    During,
    FluentRule,
    Point,
    Rate,
    Restrict,
    Rule,
    Scope,
    Transform,
    Trigger,
    When,
)
from authz.rules.terms import FLUENT, Argument, Call, Moment, map_arguments, read_interval
from authz.syntax import Language, place

Names = tuple[str, ...]

MOST_TEXT = 1_000_000
"""Maximum characters that a file of rules may have."""
MOST_DEPTH = 30
"""The deepest that conditions may be nested: with what a PDP adds they still fit a message."""
MOST_CALLS = 8
"""The deepest that calls may be nested."""


def parse_rules(text: str, source: str = "") -> tuple[Rule, ...]:
    """The rules that the text stands for. Raises InvalidSyntax, with `source` as the file's name."""
    if len(text) > MOST_TEXT:
        problem = f"there are more than {MOST_TEXT} characters: split the rules into several files"
        raise InvalidSyntax(problem, 1, 1, source)
    return _RULES.parse(text, source)


def parse_term(text: str) -> Moment:
    """The term that a path without a root is named by. Raises InvalidSyntax."""
    if len(text) > MAX_FILTER:
        raise InvalidSyntax(f"a term must have at most {MAX_FILTER:,} characters", 1, 1)
    return _TERMS.parse(text)


@v_args(inline=True)
class _Reader(Transformer[Token, tuple[Rule, ...]]):
    """From parse tree to values, bottom up."""

    def start(self, *rules: Rule) -> tuple[Rule, ...]:
        return rules

    @v_args(inline=True, meta=True)
    def statement(self, meta: Meta, label: str | None, body: Body) -> Rule:
        if max(map(depth, conditions_of(body))) > MOST_DEPTH:
            problem = f"the condition is nested deeper than {MOST_DEPTH} levels: flatten it"
            raise InvalidSyntax(problem, meta.line, meta.column)
        return Rule(body, label or "", (meta.line, meta.column))

    def label(self, name: Token) -> str:
        return str(name)

    def allow(self, asking: Token, type_: str, where: Predicate | None, rate: Rate | None) -> Allow:
        kind = Asking(" ".join(asking.lower().split()))
        if rate is not None and kind is not Asking.REPLAY:
            raise InvalidSyntax("`AT MOST` limits replay only: write `ALLOW REPLAY OF`", *place(asking))
        return Allow(type_, kind, opening(_within(type_, where)), rate)

    def allow_during(self, fluent: Token, where: Predicate | None) -> AllowDuring:
        return AllowDuring(str(fluent), opening(where or TRUE))

    def rate(self, count: Token, span: Token) -> Rate:
        number = read_constant(count)
        if not isinstance(number, int) or number < 1:
            raise InvalidSyntax(f"{count} must be a whole number, at least 1", *place(count))
        return Rate(number, _seconds(span))

    def restrict(
        self, type_: str, where: Predicate | None, filter_: Predicate, overrides: Names | None
    ) -> Restrict:
        return Restrict(type_, opening(_within(type_, filter_)), _within(type_, where), overrides or ())

    def transformation(
        self,
        type_: str,
        to: str,
        point: Token,
        steps: tuple[Call, ...],
        where: Predicate | None,
        overrides: Names | None,
    ) -> Transform:
        own = tuple(map_arguments(each, _relative(type_)) for each in steps)
        return Transform(type_, to, Point(point.lower()), own, _within(type_, where), overrides or ())

    def auto_replay(
        self,
        type_: str,
        start: When | None,
        end: When | None,
        during: During | None,
        where: Predicate | None,
        filter_: Predicate | None,
        trigger: str,
        trigger_where: Predicate | None,
    ) -> AutoReplay:
        own = (_within(type_, where), _within(type_, filter_), _within(trigger, trigger_where))
        return AutoReplay(type_, trigger, start, end, during, *map(opening, own))

    @v_args(inline=True, meta=True)
    def fluent(
        self,
        meta: Meta,
        name: Token,
        parameters: Names | None,
        initiated: tuple[Trigger, ...],
        terminated: tuple[Trigger, ...],
        scope: Token | None,
    ) -> FluentRule:
        wanted = len(parameters or ())
        for each in (*initiated, *terminated):
            if (found := len(each.arguments)) != wanted:
                problem = f"`{name}` is about {wanted} things, and `{each.type}` says {found}"
                raise InvalidSyntax(f"{problem}: name one attribute for each", meta.line, meta.column)
        chosen = Scope(scope.lower()) if scope is not None else Scope.LOCAL
        return FluentRule(str(name), parameters or (), initiated, terminated, chosen)

    def trigger(self, type_: str, arguments: Names | None, where: Predicate | None) -> Trigger:
        return Trigger(type_, arguments or (), _within(type_, where))

    def triggers(self, *triggers: Trigger) -> tuple[Trigger, ...]:
        return triggers

    def steps(self, *steps: Call) -> tuple[Call, ...]:
        return steps

    def names(self, *names: Token) -> Names:
        return tuple(map(str, names))

    overrides = names

    def type(self, *names: Token) -> str:
        return ".".join(names)

    def from_(self, when: When) -> When:
        return when

    to = from_

    def filter(self, predicate: Predicate) -> Predicate:
        return predicate

    def during(self, inverted: Token | None, fluent: Call) -> During:
        return During(fluent, inverted is not None)

    def holds(self, call: Call) -> Predicate:
        return call.fact

    def operand_term(self, moment: Moment) -> Path:
        return moment.path

    def time(self, token: Token) -> float:
        try:
            at = datetime.fromisoformat(str(read_constant(token)))
            if at.tzinfo is None:
                raise ValueError
        except ValueError:
            raise InvalidSyntax(
                f"{token} must be a time such as '2030-01-31T23:59:59Z'", *place(token)
            ) from None
        return at.timestamp()

    def computed(self, call: Call, shift: int | None) -> Moment:
        return Moment(call, shift or 0)

    def shift(self, sign: Token, text: Token) -> int:
        return -_seconds(text) if sign == "-" else _seconds(text)

    def call(self, name: Token, *arguments: Argument | None) -> Call:
        given = tuple(each for each in arguments if each is not None)
        if name == FLUENT:
            name, given = name.update(value=_fluent_name(name, given)), given[1:]
        call = Call(str(name), given)
        if _nesting(call) > MOST_CALLS:
            raise InvalidSyntax(f"calls are nested deeper than {MOST_CALLS} levels", *place(name))
        return call

    def path(self, *names: Token) -> Path:
        words = tuple(map(str, names))
        if words == (USER,):
            return Path(USER)
        if words[0] not in ROOTS or len(words) == 1:
            return Path(EVENT, words)
        root = USER if words[0] == "subject" else words[0]
        return Path(root) if root == USER and words[1:] == ("id",) else Path(root, words[1:])

    def value(self, token: Token) -> Scalar:
        return read_constant(token)


class _Conditions(FilterReader):
    """Conditions of rules: filters in which nothing is left open."""

    @v_args(inline=True)
    def parameter(self, token: Token) -> Path:
        problem = f"rules have no parameters: write `{USER}.{token[1:]}` for what is known of the user"
        raise InvalidSyntax(problem, *place(token))


def conditions_of(body: Body) -> tuple[Predicate, ...]:
    """Every condition in a rule."""
    match body:
        case Restrict():
            return body.where, body.filter
        case AutoReplay():
            return body.where, body.filter, body.trigger_where
        case FluentRule():
            return tuple(each.where for each in (*body.initiated, *body.terminated))
    return (body.where,)


def _relative(type_: str) -> Callable[[Path], Path]:
    """Takes the type's own name from the front of attributes, also within terms."""
    words = tuple(type_.split("."))

    def relative(path: Path) -> Path:
        if not path.root and f"{type_}." in (text := str(path.keys[0])):
            term = parse_term(text)
            return Moment(map_arguments(term.base, relative), term.shift).path
        own = path.root == EVENT and path.keys[: len(words)] == words and len(path.keys) > len(words)
        return Path(EVENT, path.keys[len(words) :]) if own else path

    return relative


def _within(type_: str, where: Predicate | None) -> Predicate:
    return TRUE if where is None else map_paths(where, _relative(type_))


def _fluent_name(token: Token, arguments: tuple[Argument, ...]) -> str:
    match arguments:
        case (Path(root=root, keys=(str(name),)), *_) if root == EVENT:
            return name
        case (str(name), *_) if name.isidentifier():
            return name
    raise InvalidSyntax("`fluent` needs the name of one: `fluent(treating, patient_id)`", *place(token))


def _seconds(span: Token) -> int:
    try:
        return read_interval(str(read_constant(span)))
    except (ValueError, KeyError):
        raise InvalidSyntax(f"{span} must be a span such as '2 hours'", *place(span)) from None


def _nesting(call: Call) -> int:
    return 1 + max((_nesting(each) for each in call.arguments if isinstance(each, Call)), default=0)


_HERE = FilePath(__file__).with_name("rules.lark")
_READER = merge_transformers(_Reader(), filter=_Conditions())  # type: ignore[no-untyped-call]
_WORDS = {
    **WORDS,
    "NAME": "a name",
    "ASKING": "`SUBSCRIPTION TO` or `REPLAY OF`",
    "REPLAY_DURING": "`REPLAY DURING`",
    "SIGN": "`+` or `-`",
    "POINT": "`publish` or `notify`",
    "SCOPE": "`LOCAL` or `SHARED`",
    "ALLOW": "`ALLOW`",
    "RESTRICT": "`RESTRICT`",
    "DELIVERY": "`DELIVERY OF`",
    "TRANSFORM": "`TRANSFORM EVENT`",
    "AUTO": "`AUTO REPLAY EVENT TYPE`",
    "FLUENT": "`FLUENT`",
    "INITIATED": "`INITIATED BY`",
    "TERMINATED": "`TERMINATED BY`",
    "OR_BY": "`OR BY`",
    "WHERE": "`WHERE`",
    "FILTER": "`FILTER`",
    "EXECUTE": "`EXECUTE`",
    "THEN": "`THEN`",
    "OVERRIDES": "`OVERRIDES`",
    "FROM": "`FROM`",
    "TO": "`TO`",
    "ON": "`ON`",
    "DURING": "`DURING`",
    "INTERVAL": "`interval`",
    "AT_MOST": "`AT MOST`",
    "PER": "`PER`",
}
_RULES: Language[tuple[Rule, ...]] = Language(_HERE, "start", _READER, _WORDS)
_TERMS: Language[Moment] = Language(_HERE, "computed", _READER, _WORDS)

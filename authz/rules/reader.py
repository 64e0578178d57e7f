"""Rules from text: what is wrong with it is said with line and column."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path as FilePath

from lark import Token, Transformer, v_args
from lark.tree import Meta
from lark.visitors import merge_transformers

from authz.errors import InvalidSyntax
from authz.predicate import TRUE, Path, Predicate, Scalar
from authz.predicate.filter import EVENT, ROOTS, WORDS, FilterReader, read_constant
from authz.rules.syntax import (
    Allow,
    Asking,
    AutoReplay,
    Body,
    During,
    FluentRule,
    Point,
    Restrict,
    Rule,
    Scope,
    Transform,
    Trigger,
    When,
)
from authz.rules.terms import Argument, Call, Moment, read_interval
from authz.syntax import Language, place

Names = tuple[str, ...]


def parse_rules(text: str, source: str = "") -> tuple[Rule, ...]:
    """The rules that the text stands for. Raises InvalidSyntax, with `source` as the file's name."""
    return _RULES.parse(text, source)


def parse_term(text: str) -> Moment:
    """The term that a path without a root is named by. Raises InvalidSyntax."""
    return _TERMS.parse(text)


@v_args(inline=True)
class _Reader(Transformer[Token, tuple[Rule, ...]]):
    """From parse tree to values, bottom up."""

    def start(self, *rules: Rule) -> tuple[Rule, ...]:
        return rules

    @v_args(inline=True, meta=True)
    def statement(self, meta: Meta, label: str | None, body: Body) -> Rule:
        return Rule(body, label or "", (meta.line, meta.column))

    def label(self, name: Token) -> str:
        return str(name)

    def allow(self, asking: Token, type_: str, where: Predicate | None) -> Allow:
        return Allow(type_, Asking(" ".join(asking.lower().split())), where or TRUE)

    def restrict(
        self, type_: str, where: Predicate | None, filter_: Predicate, overrides: Names | None
    ) -> Restrict:
        return Restrict(type_, filter_, where or TRUE, overrides or ())

    def transformation(
        self,
        type_: str,
        to: str,
        point: Token,
        steps: tuple[Call, ...],
        where: Predicate | None,
        overrides: Names | None,
    ) -> Transform:
        return Transform(type_, to, Point(point.lower()), steps, where or TRUE, overrides or ())

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
        return AutoReplay(
            type_, trigger, start, end, during, where or TRUE, filter_ or TRUE, trigger_where or TRUE
        )

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
        return Trigger(type_, arguments or (), where or TRUE)

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
        try:
            seconds = read_interval(str(read_constant(text)))
        except (ValueError, KeyError):
            raise InvalidSyntax(f"{text} must be a span such as '2 hours'", *place(text)) from None
        return -seconds if sign == "-" else seconds

    def call(self, name: Token, *arguments: Argument | None) -> Call:
        return Call(str(name), tuple(each for each in arguments if each is not None))

    def path(self, *names: Token) -> Path:
        words = tuple(map(str, names))
        if words[0] not in ROOTS or len(words) == 1:
            return Path(EVENT, words)
        if words[0] != EVENT and words[1:] == ("id",):
            return Path(words[0])
        return Path(words[0], words[1:])

    def value(self, token: Token) -> Scalar:
        return read_constant(token)


_HERE = FilePath(__file__).with_name("rules.lark")
_READER = merge_transformers(_Reader(), filter=FilterReader())  # type: ignore[no-untyped-call]
_WORDS = {
    **WORDS,
    "NAME": "a name",
    "ASKING": "`SUBSCRIPTION TO` or `REPLAY OF`",
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
}
_RULES: Language[tuple[Rule, ...]] = Language(_HERE, "start", _READER, _WORDS)
_TERMS: Language[Moment] = Language(_HERE, "computed", _READER, _WORDS)

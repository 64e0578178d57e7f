"""From role policy text to a rule set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, cast

from lark import Token, Transformer, v_args
from lark.tree import Meta
from lark.visitors import merge_transformers

from authz import PublicKey
from authz.errors import InvalidKey, InvalidSyntax
from authz.predicate import Predicate
from authz.predicate.text import WORDS, PredicateReader
from authz.statement_templates import OutOfTheOrdinary
from authz.syntax import Language, constant, place
from pdp.oasis.errors import InvalidTerm
from pdp.oasis.pattern import ObjectPattern
from pdp.oasis.safety import check
from pdp.oasis.syntax import (
    Activation,
    Appointed,
    Appointing,
    Authorisation,
    Condition,
    Constraint,
    Declaration,
    Empowering,
    Fact,
    Place,
    Prerequisite,
    RuleSet,
    Seniority,
    Statement,
    Trust,
)
from pdp.oasis.terms import Atom, Constant, Term, Variable, is_constant

Head: TypeAlias = Atom | tuple[tuple[str, ...], ObjectPattern] | tuple[Atom] | Empowering


MANY_LINES = 64
"""Minimum lines of a text that is read statement by statement."""
MOST_LINES = 32
"""Maximum lines of one statement there."""
_GOES_ON = ("where", "attributes", "under")
"""Words with which a line continues the statement before it."""


def parse(text: str, source: str = "") -> RuleSet:
    """The rule set that the text stands for. Raises InvalidSyntax, with `source` as the file's name."""
    rules = _by_statements(text) if text.count("\n") >= MANY_LINES else None
    if rules is None:
        rules = _LANGUAGE.parse(text, source)
    check(rules.statements, source)
    return RuleSet(rules.domain, rules.parent, rules.statements, source)


def _by_statements(text: str) -> RuleSet | None:
    """The rule set of a text whose statements begin on lines of their own; None if they do not, or one is wrong."""
    read, reader = _LANGUAGE.shapes.read, _Reader()
    found: list[Statement | tuple[Statement, ...]] = []
    domain: tuple[str, str] | None = None
    start, unread = 1, ""
    for number, lines in _pieces(text):
        if not unread:
            start = number
        unread = f"{unread}\n{lines}" if unread else lines
        try:
            named, *statements = read(unread, start)
        except OutOfTheOrdinary:  # perhaps it goes on
            if number - start >= MOST_LINES:
                return None
            continue
        unread = ""
        if named is not None:
            if found or domain is not None:
                return None
            domain = cast("tuple[str, str]", named)
        found += cast("list[Statement | tuple[Statement, ...]]", statements)
    return None if unread else reader.start(domain, *found)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The lines at which a statement probably begins, by number, each with those after it at which none does."""
    start, piece = 1, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if piece and _may_begin(line.lstrip(), piece):
            yield start, "\n".join(piece)
            start, piece = number, []
        piece.append(line)
    yield start, "\n".join(piece)


def _may_begin(line: str, before: list[str]) -> bool:
    """Whether a statement may begin at a line, after these others."""
    if not line or line[0] == "#" or line.startswith(_GOES_ON):
        return False
    goes_on = line.startswith("|-") or before[-1].endswith(",")
    return not goes_on or len(before) >= MOST_LINES


@v_args(inline=True)
class _Reader(Transformer[Token, RuleSet]):
    """From parse tree to values, bottom up."""

    def start(
        self, domain: tuple[str, str] | None, *statements: Statement | tuple[Statement, ...]
    ) -> RuleSet:
        name, parent = domain or ("", "")
        flat = [each for group in statements for each in (group if isinstance(group, tuple) else (group,))]
        return RuleSet(name, parent, tuple(flat))

    def domain(self, name: str, parent: str | None) -> tuple[str, str]:
        return name, parent or ""

    @v_args(inline=True, meta=True)
    def declaration(self, meta: Meta, opened: Token | None, *roles: Atom) -> tuple[Declaration, ...]:
        return tuple(Declaration(role, opened is not None, _place(meta)) for role in roles)

    @v_args(inline=True, meta=True)
    def trust(self, meta: Meta, key: Token, *appointments: str) -> Trust:
        try:
            PublicKey.parse(str(key))
        except InvalidKey as error:
            raise InvalidSyntax(str(error), *place(key)) from None
        return Trust(str(key), appointments, _place(meta))

    @v_args(inline=True, meta=True)
    def seniority(self, meta: Meta, senior: Atom, junior: Atom) -> Seniority:
        return Seniority(senior, junior, _place(meta))

    @v_args(inline=True, meta=True)
    def rule(self, meta: Meta, name: str | None, body: tuple[Condition, ...] | None, head: Head) -> Statement:
        conditions, label, at = body or (), name or "", _place(meta)
        if isinstance(head, Atom):
            return Activation(conditions, head, label, at)
        role, constraints = _guard(conditions, at)
        if isinstance(head, Empowering):
            if constraints:
                problem = (
                    "a capability is given with its role: put constraints into the rule that gives the role"
                )
                raise InvalidSyntax(f"{problem}, or behind `where`", *at)
            return replace(head, role=role, name=label, place=at)
        if len(head) == 1:
            return Appointing(role, constraints, head[0], label, at)
        return Authorisation(role, constraints, *head, label, at)

    def label(self, name: Token) -> str:
        return str(name)

    def body(self, *conditions: Condition) -> tuple[Condition, ...]:
        return conditions

    def prerequisite(self, role: Atom, star: Token | None) -> Condition:
        return Prerequisite(role, star is not None)

    def appointed(self, appointment: Atom, star: Token | None) -> Condition:
        return Appointed(appointment, star is not None)

    def fact(self, name: Token, terms: tuple[Term, ...], star: Token | None) -> Condition:
        return Fact(Atom(str(name), terms), star is not None)

    def constraint(self, predicate: Predicate, star: Token | None) -> Condition:
        return Constraint(predicate, star is not None)

    def activation(self, role: Atom) -> Head:
        return role

    def authorisation(self, actions: tuple[str, ...], pattern: Token) -> Head:
        try:
            return actions, ObjectPattern.parse(str(constant(pattern)))
        except InvalidTerm as error:
            raise InvalidSyntax(str(error), *place(pattern)) from None

    def appointing(self, appointment: Atom) -> Head:
        return (appointment,)

    def empowering(
        self,
        rights: tuple[str, ...],
        resource: Token,
        attributes: tuple[str, ...] | None,
        where: Predicate | None,
    ) -> Head:
        return Empowering(Atom(""), rights, str(constant(resource)), attributes or (), where)

    def attributes(self, *names: str) -> tuple[str, ...]:
        return names

    def actions(self, *actions: str | Token) -> tuple[str, ...]:
        return tuple(str(action) for action in actions if not isinstance(action, Token))

    def action(self, token: Token) -> str:
        return str(constant(token)) if token.startswith('"') else str(token)

    def atom(self, name: Token, terms: tuple[Term, ...] | None) -> Atom:
        return Atom(str(name), terms or ())

    def applied(self, name: str, terms: tuple[Term, ...] | None) -> Atom:
        return Atom(name, terms or ())

    def terms(self, *terms: Term) -> tuple[Term, ...]:
        return terms

    def variable(self, name: Token) -> Variable:
        return Variable(str(name))

    def constant(self, token: Token) -> Constant:
        value = constant(token)
        if not is_constant(value):
            problem = f"{token} cannot be a parameter: use a string or a whole number of 64 bits"
            raise InvalidSyntax(problem, *place(token))
        return value

    def qualified(self, *names: Token) -> str:
        return ".".join(names)


def _guard(conditions: tuple[Condition, ...], at: Place) -> tuple[Atom, tuple[Constraint, ...]]:
    """The one role and the constraints that may stand before a privilege."""
    roles = [each.atom for each in conditions if isinstance(each, Prerequisite)]
    constraints = tuple(each for each in conditions if isinstance(each, Constraint))
    if len(roles) != 1 or len(constraints) + 1 != len(conditions):
        problem = "a rule for a privilege or an appointment needs exactly one role, and constraints in brackets if any"
        raise InvalidSyntax(
            f"{problem}: put appointments, facts and further roles into the rule that gives the role", *at
        )
    if any(each.member for each in conditions):
        raise InvalidSyntax(
            "`*` marks what must stay true while a role is held: a privilege is not held", *at
        )
    return roles[0], constraints


def _place(meta: Meta) -> Place:
    return Place(meta.line, meta.column)


_LANGUAGE: Language[RuleSet] = Language(
    Path(__file__).with_name("rules.lark"),
    "start",
    merge_transformers(_Reader(), text=PredicateReader()),  # type: ignore[no-untyped-call]
    {**WORDS, "OPEN": "`open`", "STAR": "`*`"},
)

"""What can be wrong with one statement by itself: variables that nothing binds, negation, attributes out of place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from authz.errors import InvalidPredicate, InvalidSyntax
from authz.predicate import Predicate, paths
from authz.spki import InvalidCapability
from authz.spki.content import measure
from pdp.oasis.constraint import bind, compile_constraint, unguarded, variables
from pdp.oasis.empowering import grant
from pdp.oasis.syntax import (
    Activation,
    Appointing,
    Authorisation,
    Constraint,
    Declaration,
    Empowering,
    Seniority,
    Statement,
    Trust,
)
from pdp.oasis.terms import Atom, Variable

_ACTIVATION_ROOTS = frozenset({"subject", "context"})
_EVENT_ROOTS = frozenset({"event"})
_REQUEST_ROOTS = frozenset({"subject", "object", "action", "context"})


_Sound: TypeAlias = set[tuple[int, frozenset[str], frozenset[str]]]
"""Constraints in which nothing is wrong, by identity, with the variables and roots they may use."""


def check(statements: Iterable[Statement], source: str = "") -> None:
    """Raise InvalidSyntax, at the statement's place, for what cannot be meant."""
    sound: _Sound = set()
    for statement in statements:
        if (problem := _problem(statement, sound)) is not None:
            raise InvalidSyntax(problem, *statement.place, source)


def _problem(statement: Statement, sound: _Sound) -> str | None:
    match statement:
        case Declaration(role):
            return _declared(role)
        case Trust():
            return None
        case Seniority(senior, junior):
            return _bound(junior, senior.variables, "the senior role")
        case Activation(conditions, role):
            tests = [each for each in conditions if isinstance(each, Constraint)]
            bound = frozenset[str]().union(
                *(c.atom.variables for c in conditions if not isinstance(c, Constraint))
            )
            return _bound(role, bound, "a role, appointment or fact before `|-`") or _constraints(
                tests, bound, _ACTIVATION_ROOTS, sound
            )
        case Authorisation(role, constraints, _, pattern):
            return _constraints(constraints, role.variables | set(pattern.names), _REQUEST_ROOTS, sound)
        case Empowering():
            return _empowering(statement)
        case Appointing(role, constraints, appointment):
            bound = role.variables | appointment.variables
            return _constraints(constraints, bound, _ACTIVATION_ROOTS, sound)


def _empowering(statement: Empowering) -> str | None:
    where, variables = statement.where, statement.role.variables
    if where is not None and (problem := _shape(where, variables, _EVENT_ROOTS)):
        return problem
    try:
        grant(replace(statement, where=None), {})
        if where is not None:  # whatever the values will be, the comparisons are the same
            measure((bind(where, dict.fromkeys(variables, "")),))
    except (InvalidCapability, InvalidPredicate) as error:
        return str(error)
    return None


def _declared(role: Atom) -> str | None:
    names = [term.name for term in role.args if isinstance(term, Variable)]
    if len(names) < len(role.args) or len(set(names)) < len(names):
        return f"`{role}` is declared with a value or a name twice: give each parameter one name of its own"
    return None


def _bound(head: Atom, bound: frozenset[str], where: str) -> str | None:
    if Variable("_") in head.args:
        return f"`_` in `{head}` stands for nothing known: name a variable that occurs in {where}"
    return _free(head.variables - bound, where)


def _free(free: frozenset[str], where: str) -> str | None:
    if free:
        names = ", ".join(f"`{name}`" for name in sorted(free))
        return f"nothing binds {names}: a variable must occur in {where}"
    return None


def _constraints(
    constraints: Iterable[Constraint], bound: frozenset[str], roots: frozenset[str], sound: _Sound
) -> str | None:
    for each in constraints:
        key = (id(each.predicate), bound, roots)
        if key not in sound:
            if problem := _constraint(each, bound, roots):
                return problem
            sound.add(key)
    return None


def _constraint(constraint: Constraint, bound: frozenset[str], roots: frozenset[str]) -> str | None:
    if problem := _shape(constraint.predicate, bound, roots):
        return problem
    try:
        compile_constraint(constraint.predicate)
    except InvalidPredicate as error:
        return str(error)
    return None


def _shape(predicate: Predicate, bound: frozenset[str], roots: frozenset[str]) -> str | None:
    """What is wrong with the variables and paths of a predicate, or with a negation in it."""
    if free := _free(variables(predicate) - bound, "a role, appointment, fact or object pattern of the rule"):
        return free
    for path in paths(predicate):
        if path.root and path.root not in roots:
            known = ", ".join(f"`{root}`" for root in sorted(roots))
            return f"`{path}` cannot be read here: a path starts with one of {known}"
    if (part := unguarded(predicate)) is not None:
        return f"`{part}` would be true of what is unknown: role rules have no negation, write `!=`"
    return None

"""Domains: how rule sets are put together. A parent supplies roles and rules; a domain below it adds its own.

A role belongs to the domain that declares it or first gives it, and its full name is that domain and its name. What a
domain owns, no domain below may redefine: neither say who is in the role (unless it was declared `open`), nor whose
signature counts for an appointment.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from authz.errors import InvalidSyntax
from pdp.oasis.rulebook import Rulebook
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
    Prerequisite,
    RuleSet,
    Seniority,
    Statement,
    Trust,
)
from pdp.oasis.terms import Atom

PRINCIPAL = "principal"
"""The fact that is true of the principal of a session: `[principal(u)]`."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A statement, and where to point if something is wrong with it."""

    statement: Statement
    source: str

    def error(self, problem: str) -> InvalidSyntax:
        return InvalidSyntax(problem, *self.statement.place, self.source)


class _Domain:
    """One domain by itself: its statements, and what it owns once all of them are there."""

    def __init__(self, name: str, parent: str, source: str) -> None:
        self.name = name
        self.parent = parent
        self.source = source
        self.entries: list[_Entry] = []

    @cached_property
    def roles(self) -> frozenset[str]:
        return frozenset(name for entry in self.entries for name in _given(entry.statement))

    @cached_property
    def open(self) -> frozenset[str]:
        statements = (entry.statement for entry in self.entries)
        return frozenset(each.role.name for each in statements if isinstance(each, Declaration) and each.open)

    @cached_property
    def trusted(self) -> frozenset[str]:
        statements = (entry.statement for entry in self.entries)
        return frozenset(name for each in statements if isinstance(each, Trust) for name in each.appointments)


Chain: TypeAlias = tuple[_Domain, ...]
"""A domain and those above it, lowest first."""


class Domains:
    """Every domain of a policy, checked against each other. Raises InvalidSyntax for what does not fit."""

    def __init__(self, rule_sets: Iterable[RuleSet]) -> None:
        self._domains: dict[str, _Domain] = {}
        for rules in rule_sets:
            self._add(rules)
        self._chains = {name: self._chain(domain) for name, domain in self._domains.items()}
        for chain in self._chains.values():
            _check(chain)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._domains)

    @property
    def govern(self) -> bool:
        """Whether rules say who may activate a role: then sessions say who has one."""
        return any(
            isinstance(each.statement, Activation) for own in self._domains.values() for each in own.entries
        )

    def rulebook(self, domain: str = "") -> Rulebook:
        """What is in force in a domain: for its sessions."""
        chain = self._chains[domain]
        rules = (rule for above in reversed(chain) for rule in _named(self._chains[above.name]))
        return Rulebook.of(rules, _full_names(chain))

    def everything(self) -> Rulebook:
        """The rules of all domains together: for requests, where the full names of roles tell domains apart."""
        return Rulebook.of((rule for chain in self._chains.values() for rule in _named(chain)), {})

    def _add(self, rules: RuleSet) -> None:
        domain = self._domains.setdefault(rules.domain, _Domain(rules.domain, rules.parent, rules.source))
        if domain.parent != rules.parent:
            problem = (
                f"`{rules.domain}` has the parent `{domain.parent}` in another file: it can have only one"
            )
            raise InvalidSyntax(problem, 1, 1, rules.source)
        domain.entries.extend(_Entry(each, rules.source) for each in rules.statements)

    def _chain(self, domain: _Domain) -> Chain:
        chain = [domain]
        while parent := chain[-1].parent:
            above = self._domains.get(parent)
            if above is None or above in chain:
                problem = "is not among the domains given" if above is None else "is below itself"
                raise InvalidSyntax(f"the parent `{parent}` {problem}", 1, 1, chain[-1].source)
            chain.append(above)
        return tuple(chain)


def _check(chain: Chain) -> None:
    """Raise InvalidSyntax for what is wrong in the lowest domain of the chain, seen with those above it."""
    known = frozenset(role for domain in chain for role in domain.roles)
    labels = Counter(_label(entry.statement) for entry in chain[0].entries)
    for entry in chain[0].entries:
        if (problem := _overreach(entry.statement, chain[1:])) is not None:
            raise entry.error(problem)
        for atom in _roles(entry.statement):
            if atom.name not in known:
                raise entry.error(_unknown(atom.name, known))
        if (label := _label(entry.statement)) and labels[label] > 1:
            raise entry.error(f"two rules are named `{label}`: give each a name of its own")
    _check_arity(chain)
    _check_seniority(chain)


def _overreach(statement: Statement, above: Chain) -> str | None:
    """What the statement would take from a domain above, if anything."""
    for owner in above:
        for name in owner.roles.intersection(_given(statement)):
            if isinstance(statement, Declaration) or name not in owner.open:
                return (
                    f"the role `{name}` belongs to the domain `{owner.name}`: only there can it be declared, "
                    "and others may say who is in it only if it is declared `open role` there"
                )
        if isinstance(statement, Trust) and (taken := owner.trusted.intersection(statement.appointments)):
            return (
                f"the domain `{owner.name}` says whose `{min(taken)}` counts: no domain below can add to that"
            )
    return None


def _unknown(name: str, known: frozenset[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), 1)
    hint = (
        f"did you mean `{near[0]}`?"
        if near
        else (
            f"declare it with `role {name}`, or write `appointment {name}(...)` or `[{name}(...)]` if it is no role"
        )
    )
    return f"nothing gives the role `{name}`: {hint}"


def _check_arity(chain: Chain) -> None:
    """One name, one number of parameters."""
    arity = {("fact", PRINCIPAL): 1}
    for entry in (entry for domain in reversed(chain) for entry in domain.entries):
        for kind, atom in _uses(entry.statement):
            expected = arity.setdefault((kind, atom.name), len(atom.args))
            if expected != len(atom.args):
                raise entry.error(f"`{atom}` should have {expected} parameters, as this {kind} has elsewhere")


def _check_seniority(chain: Chain) -> None:
    """No role may be senior to itself."""
    entries = [e for domain in chain for e in domain.entries if isinstance(e.statement, Seniority)]
    juniors: dict[str, set[str]] = {}
    for entry in entries:
        if isinstance(entry.statement, Seniority):
            juniors.setdefault(entry.statement.senior.name, set()).add(entry.statement.junior.name)
    for entry in entries:
        if isinstance(entry.statement, Seniority) and _reaches(
            entry.statement.junior.name, entry.statement.senior.name, juniors
        ):
            raise entry.error(
                f"`{entry.statement.senior.name}` becomes senior to itself: seniority has no circles"
            )


def _reaches(start: str, goal: str, juniors: Mapping[str, set[str]]) -> bool:
    seen, pending = {start}, [start]
    while pending:
        here = pending.pop()
        if here == goal:
            return True
        pending.extend(juniors.get(here, set()) - seen)
        seen |= juniors.get(here, set())
    return False


def _full_names(chain: Chain) -> dict[str, str]:
    """The full name of each role that can be named in the lowest domain of the chain."""
    # A role given below but open above belongs above, so what is higher overwrites.
    return {
        role: f"{domain.name}.{role}" if domain.name else role for domain in chain for role in domain.roles
    }


def _named(chain: Chain) -> Iterator[Statement]:
    """The statements of the lowest domain, with roles by full name, and rules named by their id."""
    names, domain = _full_names(chain), chain[0].name or "roles"
    rules = 0
    for statement in (entry.statement for entry in chain[0].entries):
        match statement:
            case Seniority(senior, junior):
                yield replace(statement, senior=_full(senior, names), junior=_full(junior, names))
            case Activation(conditions, role, name):
                rules += 1
                body = tuple(_full_condition(each, names) for each in conditions)
                yield replace(
                    statement, conditions=body, role=_full(role, names), name=f"{domain}#{name or rules}"
                )
            case Authorisation() | Appointing() | Empowering():
                rules += 1
                rule_id = f"{domain}#{statement.name or rules}"
                yield replace(statement, role=_full(statement.role, names), name=rule_id)
            case _:
                yield statement


def _full(role: Atom, names: Mapping[str, str]) -> Atom:
    return Atom(names[role.name], role.args)


def _full_condition(condition: Condition, names: Mapping[str, str]) -> Condition:
    if isinstance(condition, Prerequisite):
        return Prerequisite(_full(condition.atom, names), condition.member)
    return condition


def _label(statement: Statement) -> str:
    return (
        statement.name if isinstance(statement, (Activation, Authorisation, Appointing, Empowering)) else ""
    )


def _given(statement: Statement) -> tuple[str, ...]:
    """The role of which a statement says that it exists, or who is in it."""
    match statement:
        case Declaration(role) | Activation(_, role) | Seniority(_, role):
            return (role.name,)
    return ()


def _roles(statement: Statement) -> Iterator[Atom]:
    return (atom for kind, atom in _uses(statement) if kind == "role")


def _uses(statement: Statement) -> Iterator[tuple[str, Atom]]:
    """Every atom in a statement, with what it stands for there."""
    match statement:
        case Declaration(role) | Authorisation(role) | Empowering(role):
            yield "role", role
        case Seniority(senior, junior):
            yield from (("role", senior), ("role", junior))
        case Appointing(role, _, appointment):
            yield from (("role", role), ("appointment", appointment))
        case Activation(conditions, role):
            yield "role", role
            for each in conditions:
                if not isinstance(each, Constraint):
                    yield _KINDS[type(each)], each.atom


_KINDS: dict[type[Condition], str] = {Prerequisite: "role", Appointed: "appointment", Fact: "fact"}

"""Activation: finding a rule and values for its variables under which all its conditions hold at once.

The rules are those of Yao, Moody and Bacon, "A model of OASIS role-based access control and its support for active
security" (2001). Invariant: a variable has one value throughout a proof, and each condition is matched by something
that is known, so nothing is ever concluded from an absence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from authz.predicate import Predicate
from pdp.oasis import (
    Activation,
    Appointed,
    Atom,
    Bindings,
    Condition,
    Constraint,
    Fact,
    Instance,
    Prerequisite,
    Variable,
    bind,
    ground,
    match,
    substitute,
    variables,
)
from pdp.sessions.appointment import Appointment

Support: TypeAlias = Instance | Appointment | Predicate
"""What made a condition true: an active role, a certificate, a fact, or the constraint with its values."""


class Evidence(Protocol):
    """What a session can show for itself."""

    def roles(self, pattern: Atom) -> Iterable[tuple[Instance, Instance]]:
        """Roles of this name that the session counts as being in, each with the active role it follows from."""
        ...

    def appointments(self, pattern: Atom) -> Iterable[Appointment]:
        """Certificates of this name that count now."""
        ...

    def facts(self, pattern: Atom, bindings: Bindings) -> Iterable[Instance]:
        """Known facts that may match."""
        ...

    def holds(self, constraint: Predicate, bindings: Bindings) -> bool: ...


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a role may be activated: the rule, its variables' values, and what made each condition true."""

    rule: Activation
    bindings: Bindings
    supports: tuple[tuple[Condition, Support], ...]

    @property
    def role(self) -> Instance:
        return ground(self.rule.role, self.bindings)


@dataclass(frozen=True, slots=True)
class Shortfall:
    """How far a rule came: the first condition that nothing could be found for, in the attempt that came furthest."""

    rule: str
    missing: str

    def __str__(self) -> str:
        return f"{self.rule} lacks {self.missing}"


class Search:
    """One rule, tried against the evidence for a wanted role whose variables may be anything."""

    def __init__(
        self, rule: Activation, wanted: Atom, evidence: Evidence, known: Bindings | None = None
    ) -> None:
        """`known` are values of variables besides those that the wanted role gives."""
        self._rule = rule
        self._known = known or {}
        self._wanted = wanted
        self._evidence = evidence
        # Constraints bind nothing, so they are asked last, when everything they mention has its value.
        self._conditions = sorted(rule.conditions, key=lambda each: isinstance(each, Constraint))
        self._furthest = -1
        self.shortfall = Shortfall(rule.name, str(wanted))

    @property
    def determined(self) -> bool:
        """Whether the wanted role leaves nothing open, so that any proof is as good as another."""
        return not any(isinstance(term, Variable) for term in self._wanted.args)

    def proofs(self) -> Iterator[Proof]:
        """Every proof, in the order of the rule's conditions and of what is known."""
        bindings = head_bindings(self._rule.role, self._wanted)
        return iter(()) if bindings is None else self._extend(0, {**self._known, **bindings}, ())

    def _extend(
        self, index: int, bindings: Bindings, supports: tuple[tuple[Condition, Support], ...]
    ) -> Iterator[Proof]:
        if index == len(self._conditions):
            yield Proof(self._rule, bindings, supports)
            return
        condition = self._conditions[index]
        found = False
        for extended, support in _satisfy(condition, bindings, self._evidence):
            found = True
            yield from self._extend(index + 1, extended, (*supports, (condition, support)))
        if not found and index > self._furthest:
            self._furthest = index
            self.shortfall = Shortfall(self._rule.name, _described(condition, bindings))


def head_bindings(head: Atom, wanted: Atom) -> Bindings | None:
    """What the wanted role says about the variables of a rule's head; None if the rule cannot give it."""
    if head.name != wanted.name or len(head.args) != len(wanted.args):
        return None
    bindings: dict[str, str | int] = {}
    for term, value in zip(head.args, wanted.args, strict=True):
        if isinstance(value, Variable):
            continue
        expected = bindings.setdefault(term.name, value) if isinstance(term, Variable) else term
        if expected != value:
            return None
    return bindings


def _satisfy(
    condition: Condition, bindings: Bindings, evidence: Evidence
) -> Iterator[tuple[Bindings, Support]]:
    """Each way to make one condition true: the bindings extended by it, and what it rests on."""
    match condition:
        case Prerequisite(atom):
            for role, active in evidence.roles(atom):
                if (extended := match(atom, role, bindings)) is not None:
                    yield extended, active
        case Appointed(atom):
            for appointment in evidence.appointments(atom):
                if (extended := match(atom, appointment.content, bindings)) is not None:
                    yield extended, appointment
        case Fact(atom):
            for fact in evidence.facts(atom, bindings):
                if (extended := match(atom, fact, bindings)) is not None:
                    yield extended, fact
        case Constraint(predicate):
            if evidence.holds(predicate, bindings):
                yield bindings, bind(predicate, bindings)


def _described(condition: Condition, bindings: Bindings) -> str:
    """A condition as it is written, with the values its variables had."""
    if isinstance(condition, Constraint):
        known = {name: bindings[name] for name in variables(condition.predicate)}
        return f"`{Constraint(bind(condition.predicate, known))}`"
    return f"`{type(condition)(substitute(condition.atom, bindings))}`"

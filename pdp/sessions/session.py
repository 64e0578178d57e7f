"""One principal's session: what has been shown in it, what is active in it, and what may therefore be concluded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from authz import Entity, Request
from authz.predicate import Predicate
from pdp.oasis import (
    PRINCIPAL,
    Activation,
    Appointing,
    Atom,
    Bindings,
    Case,
    Constant,
    Instance,
    compile_constraint,
    match,
)
from pdp.sessions.appointment import Appointment
from pdp.sessions.environment import Environment
from pdp.sessions.membership import TIME

_compiled = lru_cache(maxsize=4096)(compile_constraint)


@dataclass(frozen=True, slots=True)
class HeldRole:
    """A role that is held, with what it takes to hold it elsewhere too: its rule, and the values of its variables."""

    role: Instance
    rule: str
    bindings: Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class Kept:
    """A session as it can be written down."""

    appointments: tuple[Appointment, ...] = ()
    bound: tuple[Appointment, ...] = ()
    held: tuple[HeldRole, ...] = ()


@dataclass(slots=True)
class Session:
    """The state of a session. Roles are kept with all they imply, in the order they were activated."""

    id: str
    principal: Entity
    appointments: dict[tuple[str, str], Appointment] = field(default_factory=dict)
    """The certificates presented, by issuer and serial."""
    roles: dict[Instance, tuple[Instance, ...]] = field(default_factory=dict)
    bound: list[Appointment] = field(default_factory=list)
    """The appointments given in this session that end with it."""


@dataclass(frozen=True, slots=True)
class View:
    """A session at one moment, in its environment: the evidence by which rules are judged."""

    session: Session
    environment: Environment
    now: float

    def roles(self, pattern: Atom) -> Iterator[tuple[Instance, Instance]]:
        for active, implied in self.session.roles.items():
            for role in implied:
                if role.name == pattern.name:
                    yield role, active

    def appointments(self, pattern: Atom) -> Iterator[Appointment]:
        for each in self.session.appointments.values():
            ended = not each.valid_at(self.now) or self.environment.revoked(each.issuer, each.serial)
            if each.name == pattern.name and not ended:
                yield each

    def facts(self, pattern: Atom, bindings: Bindings) -> Iterable[Instance]:
        if pattern.name == PRINCIPAL:
            return (Instance(PRINCIPAL, (self.session.principal.id,)),)
        return self.environment.facts(pattern, bindings)

    def holds(self, constraint: Predicate, bindings: Bindings) -> bool:
        context = {**self.environment.context, TIME: self.now}
        request = Request(self.session.principal, Entity(self.session.id), Entity("activate"), context)
        return _compiled(constraint)(Case(request, bindings))

    def appointing_role(self, rules: Iterable[Appointing], content: Instance) -> str | None:
        """The role by which the session may give such an appointment; None if no rule lets it."""
        for rule in rules:
            for held, _ in self.roles(rule.role):
                bindings = match(rule.role, held, {})
                if bindings is not None:
                    bindings = match(rule.appointment, content, bindings)
                if bindings is not None and self._all_hold(rule, bindings):
                    return rule.role.name
        return None

    def _all_hold(self, rule: Appointing, bindings: Bindings) -> bool:
        return all(self.holds(each.predicate, bindings) for each in rule.constraints)


@lru_cache(maxsize=4096)
def rule_text(rule: Activation) -> str:
    """A rule by what it says, whatever it is called."""
    return str(replace(rule, name=""))

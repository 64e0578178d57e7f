"""The rules in force in a domain, ready to be used: roles by full name, rules by id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from pdp.oasis.syntax import Activation, Appointing, Authorisation, Empowering, Seniority, Statement, Trust
from pdp.oasis.terms import Atom, Instance, ground, match


@dataclass(frozen=True, slots=True)
class Rulebook:
    """The rules of a domain: its own, and those from the domains above it."""

    activations: Mapping[str, tuple[Activation, ...]] = field(default_factory=dict)
    """By the full name of the role given."""
    seniorities: Mapping[str, tuple[Seniority, ...]] = field(default_factory=dict)
    """By the full name of the senior role."""
    authorisations: tuple[Authorisation, ...] = ()
    appointings: tuple[Appointing, ...] = ()
    empowerings: tuple[Empowering, ...] = ()
    trust: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The keys whose certificates count, by appointment."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The full name of each role that can be named here."""

    @classmethod
    def of(cls, statements: Iterable[Statement], names: Mapping[str, str]) -> Self:
        activations: dict[str, list[Activation]] = defaultdict(list)
        seniorities: dict[str, list[Seniority]] = defaultdict(list)
        authorisations: list[Authorisation] = []
        appointings: list[Appointing] = []
        empowerings: list[Empowering] = []
        trust: dict[str, set[str]] = defaultdict(set)
        for each in statements:
            match each:
                case Activation():
                    activations[each.role.name].append(each)
                case Seniority():
                    seniorities[each.senior.name].append(each)
                case Authorisation():
                    authorisations.append(each)
                case Appointing():
                    appointings.append(each)
                case Empowering():
                    empowerings.append(each)
                case Trust():
                    for appointment in each.appointments:
                        trust[appointment].add(each.key)
        return cls(
            {name: tuple(rules) for name, rules in activations.items()},
            {name: tuple(edges) for name, edges in seniorities.items()},
            tuple(authorisations),
            tuple(appointings),
            tuple(empowerings),
            {appointment: frozenset(keys) for appointment, keys in trust.items()},
            names,
        )

    def full(self, role: Atom) -> Atom:
        """The role under its full name; one that is not known here keeps the name it has."""
        return Atom(self.names.get(role.name, role.name), role.args)

    def implied(self, role: Instance) -> tuple[Instance, ...]:
        """The role and all roles junior to it, as far as seniority reaches."""
        found: dict[Instance, None] = {role: None}
        pending = [role]
        while pending:
            senior = pending.pop()
            for edge in self.seniorities.get(senior.name, ()):
                if (bindings := match(edge.senior, senior, {})) is not None:
                    junior = ground(edge.junior, bindings)
                    if junior not in found:
                        found[junior] = None
                        pending.append(junior)
        return tuple(found)

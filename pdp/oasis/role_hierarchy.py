"""Who counts as being in a role, by the texts in `subject.roles`: whoever is in it, or in a role senior to it.

Exact or refused: a role above which only some holders of another stand, as its parameters say, is not taken for one
above which all or none do; where conditions are negated either would let in somebody whom the rules keep out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pdp.oasis.errors import InvalidTerm
from pdp.oasis.rulebook import Rulebook
from pdp.oasis.syntax import Seniority
from pdp.oasis.terms import Atom, Instance, Variable, ground, match


class RoleHierarchy:
    """The roles above each role of a rulebook."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._above: defaultdict[str, list[Seniority]] = defaultdict(list)
        for edges in rulebook.seniorities.values():
            for edge in edges:
                self._above[edge.junior.name].append(edge)
        self._plain = {each.name for each in _atoms(rulebook) if not each.args}

    def is_plain(self, role: str) -> bool:
        """Whether the role has no parameters, by the rules that name it: then its text is its name."""
        return role in self._plain

    def named(self, role: str) -> tuple[str, ...]:
        """The names of roles whose holders are in a role of this name, whatever its parameters. Raises InvalidTerm."""
        found, pending = {role: None}, [role]
        while pending:
            for edge in self._above.get(pending.pop(), ()):
                if not _is_general(edge.senior):
                    raise InvalidTerm(
                        f"`{role}` needs its parameters here: `{edge}` is about some holders only"
                    )
                if edge.senior.name not in found:
                    found[edge.senior.name] = None
                    pending.append(edge.senior.name)
        return tuple(found)

    def of(self, role: Instance) -> tuple[Instance, ...]:
        """The role and those above it, each with its parameters. Raises InvalidTerm if these cannot be listed."""
        found, pending = {role: None}, [role]
        while pending:
            junior = pending.pop()
            for edge in self._above.get(junior.name, ()):
                bindings = match(edge.junior, junior, {})
                if bindings is None:
                    continue
                if not edge.senior.variables <= bindings.keys() or Variable("_") in edge.senior.args:
                    raise InvalidTerm(
                        f"`{role}` cannot be asked for: by `{edge}` others count as it without number"
                    )
                senior = ground(edge.senior, bindings)
                if senior not in found:
                    found[senior] = None
                    pending.append(senior)
        return tuple(found)


def _atoms(rulebook: Rulebook) -> Iterator[Atom]:
    """Every role as some rule names it."""
    yield from (rule.role for rules in rulebook.activations.values() for rule in rules)
    for edges in rulebook.seniorities.values():
        yield from (role for edge in edges for role in (edge.senior, edge.junior))
    yield from (rule.role for rule in rulebook.authorisations)


def _is_general(role: Atom) -> bool:
    """Whether it stands for all holders of the role."""
    named = [each.name for each in role.args if isinstance(each, Variable) and each.name != "_"]
    return all(isinstance(each, Variable) for each in role.args) and len(named) == len(set(named))

"""What a change of role rules may alter about requests. Who is in a role is no part of it: requests say that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from authz import Entity, Request
from authz.change import ROLES, Effect, Granted, Revoked, Touched
from authz.predicate import And, Equal, Overlaps, Path, Predicate, Regex
from pdp.oasis.actions import about, is_wild
from pdp.oasis.grants import Grants
from pdp.oasis.rulebook import Rulebook
from pdp.oasis.source import RoleSource
from pdp.oasis.syntax import Authorisation
from pdp.oasis.terms import Atom


def hierarchy(rulebook: Rulebook) -> dict[str, tuple[str, ...]]:
    """Each role without parameters with those directly below it, as caches know roles: by their text."""
    below: dict[str, list[str]] = defaultdict(list)
    for edges in rulebook.seniorities.values():
        for edge in edges:
            if not edge.senior.args and not edge.junior.args:
                below[edge.senior.name].append(edge.junior.name)
    return {senior: tuple(sorted(set(juniors))) for senior, juniors in sorted(below.items())}


def seniorities_differ(old: Rulebook, new: Rulebook) -> bool:
    """Whether some role implies other roles than before."""
    return {name: set(edges) for name, edges in old.seniorities.items()} != {
        name: set(edges) for name, edges in new.seniorities.items()
    }


def role_effects(old: Rulebook, new: Rulebook, roles_sent: bool) -> Iterator[Effect]:
    """What follows from rules that were added, altered or removed, between rulebooks of equal seniority.

    `roles_sent` says whether requests carry the roles that count; otherwise nobody outside can test them.
    """
    before, after = ({rule.name: rule for rule in book.authorisations} for book in (old, new))
    gone = [rule for name, rule in before.items() if after.get(name) != rule]
    come = [rule for name, rule in after.items() if before.get(name) != rule]
    known = _Holders(new)
    for rules, kind, otherwise in ((gone, Revoked, _Side(new)), (come, Granted, _Side(old))):
        for rule in rules:
            yield from _effects(rule, kind, otherwise, known.of(rule.role) if roles_sent else None)


class _Side:
    """What roles have by the rules of one side of the change."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._grants = Grants(rulebook)
        self._source = RoleSource(rulebook)

    def may_have(self, role: str, action: str, object_id: str) -> bool:
        """Whether the role has the permission, or could under some constraint."""
        asked = Request.of(Entity("anyone", {"roles": [role]}), object_id, action)
        constrained = any(entry.constrained for entry, _ in self._grants.find(action, object_id))
        return constrained or self._source.judge(asked).effect is not None


def _effects(
    rule: Authorisation, kind: type[Granted | Revoked], otherwise: _Side, holders: tuple[str, ...] | None
) -> Iterator[Effect]:
    if not _plain(rule):
        yield Touched(reach(rule, holders))
        return
    role, object_id = rule.role.name, rule.pattern.text
    for action in rule.actions:
        if otherwise.may_have(role, action, object_id):
            # Then another rule decides than before, and it is not the role that gains or loses anything.
            yield Touched(reach(rule, holders))
        else:
            yield kind(role, object_id, action, holders or ())


def _plain(rule: Authorisation) -> bool:
    """Whether the rule gives a role without parameters a permission by name, and that is all."""
    by_name = bool(rule.actions) and not any(map(is_wild, rule.actions))
    return by_name and not rule.constraints and not rule.role.args and rule.pattern.exact({})


def reach(rule: Authorisation, holders: tuple[str, ...] | None = None) -> Predicate:
    """Where a rule may apply: whatever its constraints say, and to whomever unless the role's holders are known."""
    terms: list[Predicate] = []
    if rule.actions:
        terms.append(about(rule.actions))
    if rule.pattern.exact({}):
        terms.append(Equal(Path("object"), rule.pattern.text))
    elif rule.pattern.segments:
        terms.append(Regex(Path("object"), rule.pattern.regex({})))
    if holders:
        terms.append(Overlaps(ROLES, holders))
    return And(tuple(terms))


class _Holders:
    """Which texts in `subject.roles` make somebody count as being in a role."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._above: dict[str, list[Atom]] = defaultdict(list)
        for edges in rulebook.seniorities.values():
            for edge in edges:
                self._above[edge.junior.name].append(edge.senior)

    def of(self, role: Atom) -> tuple[str, ...] | None:
        """The role and those above it; None if some have parameters, so that their texts cannot be listed."""
        if role.args:
            return None
        found = {role.name: None}
        pending = [role.name]
        while pending:
            for senior in self._above.get(pending.pop(), ()):
                if senior.args:
                    return None
                if senior.name not in found:
                    found[senior.name] = None
                    pending.append(senior.name)
        return tuple(found)

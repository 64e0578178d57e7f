"""Roles as a policy source: a request is allowed if one of its subject's active roles is granted what it asks.

The roles are the texts in `subject.roles`, which is what a session exports (`Sessions.attributes`); the decision point
must have them from somebody it trusts, not from the asker. There are no negative rules, so the source allows or is
silent; and another role never takes anything away, which is what its certificates build on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import structs

from authz import Basis, Request
from authz.decision import Effect
from authz.explanation import Change, PolicyExplanation, shown
from authz.predicate import And, Certificate, Equal, Kind, Literal, Overlaps, Path, Subset
from authz.predicate.values import LISTS
from pdp.engine import SILENT, Verdict, explain_policy
from pdp.oasis.actions import ACTION
from pdp.oasis.constraint import bind
from pdp.oasis.errors import InvalidTerm
from pdp.oasis.grants import OBJECT, Entry, Grant, Grants
from pdp.oasis.pattern import Holes
from pdp.oasis.rulebook import Rulebook
from pdp.oasis.syntax import Authorisation
from pdp.oasis.terms import Bindings, Instance, substitute

ROLES = Path("subject", ("roles",))

_FEW = 16
"""Maximum roles that a certificate names as missing from its subject."""

_NO_ROLE = Verdict(None, basis=Basis.ROLES)
_NO_RULE = Verdict(None, unconcerned=True)

Found: TypeAlias = list[tuple[Entry, Holes]]
Attempt: TypeAlias = tuple[str, Grant, Bindings]
"""A role as sent, a grant for it or for a role that it implies, and the values of the rule's variables."""


class RoleSource:
    """The authorisation rules of all domains."""

    def __init__(self, rulebook: Rulebook, name: str = "roles") -> None:
        self.name = name
        self.rulebook = rulebook
        self._grants = Grants(rulebook)
        self._implied = _reader(rulebook)

    def judge(self, request: Request, certify: bool = False) -> Verdict:
        """Allow, or say nothing."""
        entries = self._grants.find(request.action.id, request.object.id)
        sent = request.subject.attributes.get("roles")
        roles: Collection[str] = sent if isinstance(sent, LISTS) else ()
        try:
            success = self._success(request, roles, entries)
        except TypeError:  # an element that cannot be looked up in a dictionary is no role
            roles = [each for each in roles if isinstance(each, str)]
            success = self._success(request, roles, entries)
        pure = not any(entry.constrained for entry, _ in entries)
        if success is None:
            verdict = _NO_RULE if not entries else _NO_ROLE if pure else SILENT
        else:
            verdict = success[1].verdict_by_role if pure else success[1].verdict
        if not certify:
            return verdict
        certificate = _reasons(request, success) if success else self._silence(request, roles, entries)
        return Verdict(
            verdict.effect,
            verdict.policies,
            certificate,
            basis=verdict.basis,
            unconcerned=verdict.unconcerned,
        )

    def explain(self, request: Request) -> tuple[Sequence[PolicyExplanation], int]:
        """The rules about the action and object, each with what it lacks, and how many more there are."""
        entries = self._grants.find(request.action.id, request.object.id)
        explained = [
            self._explain(request, grant, holes) for entry, holes in entries for grant in entry.grants
        ]
        return explained, len(self.rulebook.authorisations) - len(explained)

    def _explain(self, request: Request, grant: Grant, holes: Holes) -> PolicyExplanation:
        sent = request.subject.attributes.get("roles")
        rule = grant.rule
        fits = [
            (
                role,
                And(
                    (Overlaps(ROLES, (text,)), *(bind(each.predicate, bindings) for each in rule.constraints))
                ),
            )
            for text in (sent if isinstance(sent, LISTS) else ())
            for role in (self._implied(text) if isinstance(text, str) else ())
            if (bindings := grant.bind(role, holes)) is not None
        ]
        if not fits:
            wanted = substitute(rule.role, dict(zip(rule.pattern.names, holes, strict=True)))
            lacking = Change(f"the role {wanted}", str(ROLES), sent)
            return PolicyExplanation(rule.name, self.name, Effect.ALLOW, False, (lacking,))
        tried = [
            _granting(role, rule, explain_policy(request, rule.name, self.name, Effect.ALLOW, each))
            for role, each in fits
        ]
        return min(tried, key=lambda each: (not each.applies, len(each.changes)))

    def _success(self, request: Request, roles: Collection[str], entries: Found) -> Attempt | None:
        for entry, _ in entries:
            by_text = entry.by_text
            if by_text and not by_text.keys().isdisjoint(roles):
                text = next(each for each in roles if each in by_text)
                return text, by_text[text], {}
        attempts = self._attempts(roles, entries)
        return next((each for each in attempts if each[1].holds(request, each[2])), None)

    def _attempts(self, roles: Collection[str], entries: Found) -> Iterator[Attempt]:
        """Every grant that fits a role and the object, before its constraints are asked."""
        named = [(entry.by_name, holes) for entry, holes in entries if entry.by_name]
        if not named:
            return
        for text in roles:
            for role in self._implied(text) if isinstance(text, str) else ():
                for by_name, holes in named:
                    for grant in by_name.get(role.name, ()):
                        bindings = {} if grant.open else grant.bind(role, holes)
                        if bindings is not None:
                            yield text, grant, bindings

    def _silence(self, request: Request, roles: Collection[str], entries: Found) -> Certificate | None:
        """Why nothing applies; None if the roles sent are such that no literal describes them."""
        literals = [Literal(Equal(ACTION, request.action.id))]
        if self._grants.concern(request.action.id):
            literals.append(Literal(Equal(OBJECT, request.object.id)))
        if entries:
            lacking = _lacking(request, roles, entries)
            if lacking is None:
                return None
            literals.append(lacking)
        failed: dict[Literal, None] = {}
        for _, grant, bindings in self._attempts(roles, entries):
            failed.update(dict.fromkeys(grant.literals(request, bindings)))
        return (*literals, *failed)


def _granting(role: Instance, rule: Authorisation, explained: PolicyExplanation) -> PolicyExplanation:
    """With what the rule grants to the role by which it applies, which may be implied by the one that is listed."""
    actions = ", ".join(rule.actions) or "every action"
    granted = f"{actions} of {shown(rule.pattern.text)} is granted to {role}"
    return (
        structs.replace(explained, because=(granted, *explained.because)) if explained.applies else explained
    )


def _reasons(request: Request, success: Attempt) -> Certificate:
    text, grant, bindings = success
    has_role = Literal(Overlaps(ROLES, (text,)))
    constraints = dict.fromkeys(grant.literals(request, bindings))
    return (has_role, *grant.permission(request, bindings), *constraints)


def _lacking(request: Request, roles: Collection[str], entries: Found) -> Literal | None:
    """That the subject has no role that is granted this, or only such as have been tried in vain."""
    sent = request.subject.attributes.get("roles")
    if not isinstance(sent, LISTS):
        return Literal(Kind(ROLES, "list"), False)
    granted = {text for entry, _ in entries for text in entry.by_text}
    if len(granted) <= _FEW and not any(entry.by_name for entry, _ in entries):
        return Literal(Overlaps(ROLES, tuple(sorted(granted))), False)
    if not all(isinstance(each, str) for each in sent):
        return None
    return Literal(Subset(ROLES, tuple(dict.fromkeys(roles))))


def _reader(rulebook: Rulebook) -> Callable[[str], tuple[Instance, ...]]:
    """From the text of a role to it and all roles it implies; none if it cannot be read. Remembers the last many."""

    @lru_cache(maxsize=65536)
    def implied(text: str) -> tuple[Instance, ...]:
        try:
            return rulebook.implied(Instance.parse(text))
        except InvalidTerm:
            return ()

    return implied

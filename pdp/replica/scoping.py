"""Scopes: what is left of all policies when the object is not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from authz import Entity, Request
from authz.decision import Effect
from authz.errors import InvalidPredicate
from authz.predicate import (
    FALSE,
    TRUE,
    AnyComparison,
    Equal,
    Exists,
    In,
    Kind,
    Path,
    Predicate,
    Prefix,
    compile_predicate,
    paths,
)
from authz.predicate.residual import all_of, any_of, none_of, residual
from authz.predicate.widening import Hidden
from authz.scope import Scope, ScopePart, ScopeRefused
from pdp.abac import Algorithm, Policy
from pdp.bundle import PolicySet, places_of
from pdp.oasis import ROLES, RoleSource, about

OBJECT = Path("object")


class Scoper:
    """Makes scopes under one set of policies."""

    def __init__(self, policies: PolicySet, hidden: Hidden) -> None:
        """Attributes of objects that are `hidden` are looked up by PDPs, so that nobody else can test them."""
        self._policies = policies
        self._hidden = hidden
        self._roles = RoleSource(policies.roles.everything()) if policies.roles is not None else None

    def scope(self, request: Request, under: str, epoch: int, until: float) -> Scope:
        """The scope of a subject, an action and a context; the request's object counts for nothing.

        Raises ScopeRefused for what cannot be said of the object alone.
        """
        parts: list[ScopePart] = []
        allowed: list[Predicate] = []
        denied: list[Predicate] = []
        for _, policies, algorithm in self._policies.combined():
            left = [self._left(each, request, under) for each in policies]
            parts += [ScopePart(self._place(each), what) for each, what in left if what != FALSE]
            allow, deny = _combined(left, algorithm)
            allowed.append(allow)
            denied.append(deny)
        allowed += self._by_role(request, under)
        for name, labels in self._policies.labels.items():
            if request.action.id in labels.actions:
                raise ScopeRefused(
                    "labels of objects cannot be said as a predicate", f"label policy `{name}`"
                )
        predicate = all_of([any_of(allowed), none_of(any_of(denied))])
        return Scope(under, predicate, epoch, until, tuple(parts))

    def _left(self, policy: Policy, request: Request, under: str) -> tuple[Policy, Predicate]:
        try:
            left = residual(policy.condition, request, "object", lambda test: _known(test, under))
        except InvalidPredicate as error:
            raise ScopeRefused(str(error), self._place(policy)) from None
        if left != FALSE:
            if looked_up := [path for path in paths(left) if self._hidden(path)]:
                problem = f"`{looked_up[0]}` is looked up by PDPs, so that no list can be filtered by it"
                raise ScopeRefused(problem, self._place(policy))
            if policy.obligations and policy.effect is Effect.ALLOW:
                raise ScopeRefused(
                    "it obliges, and a list cannot oblige for some of its rows", self._place(policy)
                )
        return policy, left

    def _by_role(self, request: Request, under: str) -> Iterator[Predicate]:
        """What roles may, where rules name single objects."""
        if self._roles is None or not request.subject.attributes.get(ROLES.keys[0]):  # type: ignore[arg-type]
            return
        for rule in self._roles.rulebook.authorisations:
            if rule.actions and not compile_predicate(about(rule.actions))(request):
                continue
            if not rule.pattern.exact({}):
                raise ScopeRefused(
                    "a rule about many objects cannot be said as a predicate", f"role rule `{rule.name}`"
                )
            if any(path.root == "object" for each in rule.constraints for path in paths(each.predicate)):
                raise ScopeRefused("a constraint about the object cannot be said", f"role rule `{rule.name}`")
            asked = Request(request.subject, Entity(rule.pattern.text), request.action, request.context)
            if self._roles.judge(asked).effect is Effect.ALLOW:
                yield _known(Equal(OBJECT, rule.pattern.text), under)

    def _place(self, policy: Policy) -> str:
        file = self._policies.files.get(policy.id)
        if file is None:
            return f"policy `{policy.id}`"
        line, column = places_of(file, [(policy.id, None)])[0]
        return f"{file.path}:{line}:{column} (policy `{policy.id}`)"


def _known(test: AnyComparison, under: str) -> Predicate:
    """What is known of an object's name: how it begins."""
    if test.path != OBJECT:
        return test
    match test:
        case Prefix(value=value, fold=False) if under.startswith(value):
            return TRUE
        case Prefix(value=value, fold=False):
            return test if value.startswith(under) else FALSE
        case Equal(value=value, fold=False):
            return test if isinstance(value, str) and value.startswith(under) else FALSE
        case In(values=values):
            kept = tuple(each for each in values if isinstance(each, str) and each.startswith(under))
            return In(OBJECT, kept) if kept else FALSE
        case Exists() | Kind(kind="string"):
            return TRUE
        case Kind():
            return FALSE
    return test


def _combined(left: Sequence[tuple[Policy, Predicate]], algorithm: Algorithm) -> tuple[Predicate, Predicate]:
    """Where policies together allow, and where they deny."""
    if algorithm is not Algorithm.HIGHEST_PRIORITY:
        allow, deny = _by_effect(left)
        if algorithm is Algorithm.ALLOW_OVERRIDES:
            return allow, all_of([deny, none_of(allow)])
        return all_of([allow, none_of(deny)]), deny
    allowed: Predicate = FALSE
    denied: Predicate = FALSE
    by_priority = sorted(left, key=lambda each: each[0].priority)
    for _, several in groupby(
        by_priority, key=lambda each: each[0].priority
    ):  # the highest comes last, and counts
        allow, deny = _by_effect(list(several))
        silent = none_of(any_of([allow, deny]))
        allowed = any_of([all_of([allow, none_of(deny)]), all_of([silent, allowed])])
        denied = any_of([deny, all_of([silent, denied])])
    return allowed, denied


def _by_effect(left: Iterable[tuple[Policy, Predicate]]) -> tuple[Predicate, Predicate]:
    several = list(left)
    allow = any_of(what for policy, what in several if policy.effect is Effect.ALLOW)
    return allow, any_of(what for policy, what in several if policy.effect is Effect.DENY)

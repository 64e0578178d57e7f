"""Which permissions attribute policies grant to single roles and by nothing else: what caches may infer from (SAAM).

A policy grants to roles if it allows, obliges to nothing, and asks for nothing but an object and an action by id, and
that `subject.roles` has one of some roles. Where anything else may apply to the same object and action, to whomever,
roles alone do not decide. Where roles imply others, comparisons of roles name the seniors too, so what is granted to
a role is granted to its seniors, as by role rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from authz.change import ROLES
from authz.decision import Basis, Effect
from authz.predicate import TRUE, And, Names, Or, Overlaps, Path, Predicate, paths, widen
from authz.request import Request
from pdp.abac.policy import Policy
from pdp.engine import Index, pack_index

IDS = frozenset({Path("object"), Path("action")})
MOST_KEPT = 65_536
"""Maximum permissions whose decision by policies is remembered."""


class Standing(NamedTuple):
    """How policies stand to a permission."""

    basis: Basis | None = None
    unconcerned: bool = False
    """Whether none of them is about it, whoever asks."""


_BY_ROLES, _UNCONCERNED, _OTHERWISE = Standing(Basis.ROLES), Standing(unconcerned=True), Standing()


def grants_to_roles(policy: Policy) -> bool:
    """Whether a policy grants something to single roles, and asks for nothing else."""
    if policy.effect is not Effect.ALLOW or policy.obligations:
        return False
    others = [each for each in _terms(policy.condition) if not IDS.issuperset(paths(each))]
    return len(others) == 1 and _asks_for_a_role(others[0])


def _asks_for_a_role(condition: Predicate) -> bool:
    """Whether it holds of whoever has one of some roles, whatever the others are."""
    if isinstance(condition, Or):
        return all(map(_asks_for_a_role, condition.terms))
    return isinstance(condition, (Overlaps, Names)) and condition.path == ROLES


def pack_concerns(policies: Sequence[Policy]) -> bytes:
    """The index of what each policy is about; empty if none of them grants to roles."""
    if not any(map(grants_to_roles, policies)):
        return b""
    return pack_index((number, concern(each.condition)) for number, each in enumerate(policies))


def concern(condition: Predicate) -> Predicate:
    """What a condition says of object and action by id: true at least wherever the whole may be."""
    return widen(condition, lambda path: path not in IDS)


class RoleGrants:
    """By permission, what policies may apply to it, whoever asks."""

    def __init__(self, policies: Sequence[Policy], packed: bytes | None = None) -> None:
        self._kept: dict[tuple[str, str], Standing] = {}

        def numbered(number: int) -> tuple[Predicate, bool]:
            return concern(policies[number].condition), grants_to_roles(policies[number])

        packed = pack_concerns(policies) if packed is None else packed
        self._index = Index.opened(packed, numbered) if packed else None

    def standing(self, request: Request) -> Standing:
        """How the policies stand to what the request asks for."""
        if self._index is None:
            return _OTHERWISE
        permission = (request.object.id, request.action.id)
        found = self._kept.get(permission)
        if found is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            found = self._kept[permission] = _judge(self._index, request)
        return found


def _judge(index: Index[bool], request: Request) -> Standing:
    about: list[bool] = []
    index.search(request, about.append)
    if not about:
        return _UNCONCERNED
    return _BY_ROLES if all(about) else _OTHERWISE


def _terms(condition: Predicate) -> Iterator[Predicate]:
    """What must all hold."""
    if isinstance(condition, And):
        for each in condition.terms:
            yield from _terms(each)
    elif condition != TRUE:
        yield condition

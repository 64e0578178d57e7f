"""Policies as bits: what to evaluate over subjects, what over permissions, and what follows where both match.

Each clause of each policy is a bit. Tiers say in which order bits count: that of a source's combining algorithm, and
between sources, that a deny overrides. Invariant: of the bits that match a request, the first tier with one of them
has the effect that the engine would find; it is ASK if what comes first has a part that only the request can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from authz.decision import Effect
from authz.predicate import TRUE, And, Equal, In, Or, Path, Predicate, Scalar, paths
from pdp.abac import Algorithm, Policy
from sdp_cache.snapshots import Ruling
from spark_eval.errors import EvaluationError
from spark_eval.plans.split import Clause, split

OBJECT = Path("object")

MAX_NAMED = 512
"""Up to this many clauses each is a bit of its own, and decisions name policies. Beyond, clauses that differ only in
the permission share one."""


class CannotCombine(EvaluationError):
    """Two sets of policies whose combining algorithms leave no single order among their policies."""

    def __init__(self, names: Sequence[str]) -> None:
        listed = " and ".join(f"`{name}`" for name in names)
        super().__init__(
            f"{listed} cannot be precomputed together: at most one of them may combine otherwise than deny-overrides"
        )
        self.names = tuple(names)


class Grant(msgspec.Struct, frozen=True):
    """Several policies that allow the same subjects something, and need not be told apart."""

    policies: tuple[str, ...]
    subject: Predicate
    permission: Predicate


class Rules(msgspec.Struct, frozen=True):
    """The policies of one source, under its combining algorithm; grants go only with deny-overrides."""

    policies: tuple[Policy, ...]
    algorithm: Algorithm = Algorithm.DENY_OVERRIDES
    name: str = "abac"
    grants: tuple[Grant, ...] = ()


class Rank(NamedTuple):
    """When a bit counts: before all that rank behind it."""

    source: int
    """0 for the denies of sources that combine deny-overrides, 2 for their allows, 1 for the source that does not."""
    priority: int
    """Negated, so that the highest comes first."""
    effect: int


_FIRST = Rank(-1, 0, 0)
"""Before everything: where it may apply, the PDP is asked whatever else does."""
_ALLOWS = Rank(2, 0, 0)
"""Whatever allows in a source that combines deny-overrides."""


class Bit(msgspec.Struct, frozen=True):
    """A clause of a policy, or several that differ only in the permission."""

    policies: tuple[str, ...]
    effect: Effect
    rank: Rank
    clause: Clause
    obliges: bool = False
    """Whether its policies have obligations: then the decision is the PDP's to give, with what it obliges to."""

    @property
    def asks(self) -> bool:
        return self.obliges or self.clause.ask != TRUE


class Tier(NamedTuple):
    """Bits of equal standing, by number, and what follows if one of them is the first to match."""

    ruling: Ruling
    effect: Effect
    """That of the policies; it is the ruling, unless that is to ask whether they apply."""
    bits: tuple[int, ...]


class Plan(msgspec.Struct, frozen=True, dict=True):
    """Everything there is to evaluate, in the order of the policies."""

    bits: tuple[Bit, ...]

    @cached_property
    def joins(self) -> tuple[Predicate, ...]:
        """The different comparisons of subject with permission."""
        return tuple(dict.fromkeys(bit.clause.join for bit in self.bits if bit.clause.join != TRUE))

    @cached_property
    def named(self) -> bool:
        """Whether each bit belongs to one policy."""
        return all(len(bit.policies) == 1 for bit in self.bits)

    def paths(self, *roots: str) -> tuple[Path, ...]:
        """The attributes of these roots that any part looks at."""
        clauses = (bit.clause for bit in self.bits)
        found = (
            path
            for clause in clauses
            for part in (clause.subject, clause.permission, clause.join)
            for path in paths(part)
        )
        return tuple(dict.fromkeys(path for path in found if path.root in roots))

    def bare(self) -> Plan:
        """The plan without what was evaluated over entities already: all that a board needs, and small."""
        done = {"subject": TRUE, "permission": TRUE}
        return Plan(tuple(replace(bit, policies=(), clause=replace(bit.clause, **done)) for bit in self.bits))

    def tiers(self, asking: frozenset[int] = frozenset()) -> tuple[Tier, ...]:
        """The tiers in order. `asking` are bits that turned out to need the PDP besides those that say so."""
        members: dict[tuple[Rank, bool, Effect], list[int]] = {}
        for number, bit in enumerate(self.bits):
            asks = bit.asks or number in asking
            members.setdefault((bit.rank, asks, bit.effect), []).append(number)
        return tuple(
            Tier(Ruling.ASK if asks else Ruling[effect.name], effect, tuple(numbers))
            for (_, asks, effect), numbers in sorted(members.items())
        )


def make_plan(sources: Sequence[Rules], most_named: int = MAX_NAMED) -> Plan:
    """The plan for several sources together. Raises CannotCombine."""
    special = [each.name for each in sources if each.algorithm is not Algorithm.DENY_OVERRIDES]
    if len(special) > 1:
        raise CannotCombine(special)
    bits = tuple(bit for rules in sources for bit in _bits(rules))
    merging = len(bits) > most_named or any(rules.grants for rules in sources)
    return Plan(tuple(_merge(bits)) if merging else bits)


def _bits(rules: Rules) -> Iterator[Bit]:
    for policy in rules.policies:
        rank = _rank(policy, rules.algorithm)
        for clause in split(policy.condition):
            yield Bit((policy.id,), policy.effect, rank, clause, bool(policy.obligations))
    for grant in rules.grants:
        yield Bit(grant.policies, Effect.ALLOW, _ALLOWS, Clause(grant.subject, grant.permission))


def _rank(policy: Policy, algorithm: Algorithm) -> Rank:
    allows = policy.effect is Effect.ALLOW
    if policy.obligations:
        return _FIRST
    match algorithm:
        case Algorithm.DENY_OVERRIDES:
            return _ALLOWS if allows else Rank(0, 0, 0)
        case Algorithm.ALLOW_OVERRIDES:
            return Rank(1, 0, 0 if allows else 1)
        case Algorithm.HIGHEST_PRIORITY:
            return Rank(1, -policy.priority, 1 if allows else 0)


def _merge(bits: Iterable[Bit]) -> Iterator[Bit]:
    """Bits that match the same subjects with the same consequence become one, for any of their permissions."""
    alike: dict[tuple[Effect, Rank, Clause, bool], list[Bit]] = {}
    for bit in bits:
        key = replace(bit.clause, permission=TRUE)
        alike.setdefault((bit.effect, bit.rank, key, bit.obliges), []).append(bit)
    for (effect, rank, clause, obliges), several in alike.items():
        permission = _any_of([bit.clause.permission for bit in several])
        policies = tuple(dict.fromkeys(policy for bit in several for policy in bit.policies))
        yield Bit(policies, effect, rank, replace(clause, permission=permission), obliges)


def _any_of(permissions: Sequence[Predicate]) -> Predicate:
    """One of these holds. Those that differ only in the object's name are looked up together."""
    names: dict[tuple[Predicate, ...], dict[Scalar, None]] = {}
    others: dict[Predicate, None] = {}
    for permission in permissions:
        terms = permission.terms if isinstance(permission, And) else (permission,)
        named = [each for each in terms if isinstance(each, (Equal, In)) and each.path == OBJECT]
        if len(named) != 1 or (isinstance(named[0], Equal) and named[0].fold):
            others[permission] = None
            continue
        rest = tuple(each for each in terms if each is not named[0])
        values = named[0].values if isinstance(named[0], In) else (named[0].value,)
        names.setdefault(rest, {}).update(dict.fromkeys(values))
    looked_up = (And((*rest, In(OBJECT, tuple(values)))) for rest, values in names.items())
    together = (*looked_up, *others)
    return together[0] if len(together) == 1 else Or(together)

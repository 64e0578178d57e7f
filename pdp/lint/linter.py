"""What is wrong with policies that can be read: conditions nobody can meet, policies that never decide, unknown names.

Sound, not complete: what is reported is so; some of what is so is not found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from authz import PublicKey
from authz.change import ROLES
from authz.decision import Effect
from authz.errors import InvalidKey
from authz.predicate import And, Path, covers, satisfiable
from pdp.abac import Algorithm, Policy
from pdp.bundle import (
    Bundle,
    Entities,
    FileKind,
    InvalidPolicies,
    PolicySet,
    Schema,
    as_texts,
    keys_of,
    misuses,
    places_of,
)
from pdp.documents import Finding, Kind
from pdp.engine import CoverIndex
from pdp.lint.negative_conditions import Gap, gaps
from pdp.lint.overly_permissive import lavish, lavish_rules
from pdp.lint.rule_check import check_interaction
from pdp.oasis import PRINCIPAL, Activation, Appointed, Appointing, Authorisation, Constraint, Fact, RuleSet

MOST_COMPARISONS = 200_000
"""Maximum pairs of policies compared; beyond, some shadowed policies are not found."""


def check(bundle: Bundle) -> list[Finding]:
    """Everything found, file by file, in the order of lines."""
    try:
        policies = PolicySet.read(bundle)
    except InvalidPolicies as error:
        return [
            Finding(Kind.SYNTAX, each.source, each.line, each.column, each.problem) for each in error.problems
        ]
    reachable = [each for each in policies.policies if satisfiable(each.condition)]
    overlaps = _located(policies, _overlaps(reachable, policies.manifest.algorithm))
    return _in_order([*faults(bundle, policies), *overlaps])


def faults(bundle: Bundle, policies: PolicySet) -> list[Finding]:
    """What is found without comparing policies with each other: every error is among it."""
    found = [
        *_nothing(bundle, policies),
        *_located(policies, _policies(policies)),
        *_roles(policies),
        *_keys(bundle, policies),
        *check_interaction(policies.interaction, policies.manifest.attributes),
    ]
    return _in_order(found)


def _in_order(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda each: (each.file, each.line, each.column))


def _nothing(bundle: Bundle, policies: PolicySet) -> Iterator[Finding]:
    """Files without a policy or a rule in them, such as one whose text is a comment."""
    if bundle.files and policies.empty:
        file = next((each for each in bundle.files if each.kind is FileKind.ABAC), bundle.files[0])
        text = (
            "there is no policy, here or in another file, so everything would be denied: write one,"
            " such as `- {uid: ann-reads, effect: allow, targets: {subject_id: ann, action_id: read}, rules: {}}`"
        )
        yield Finding(Kind.NO_POLICIES, file.path, 1, 1, text)


class _Remark(NamedTuple):
    kind: Kind
    policy: str
    text: str
    attribute: Path | None = None
    """Where in the policy it is, if it is about an attribute."""


def _policies(policies: PolicySet) -> Iterator[_Remark]:
    for policy in policies.policies:
        if not satisfiable(policy.condition):
            yield _Remark(Kind.UNREACHABLE, policy.id, f"`{policy.id}` never applies: nothing meets it")
        if (schema := policies.manifest.attributes) is not None:
            for misuse in misuses(policy.condition, schema):
                kind = Kind.UNKNOWN_ATTRIBUTE if misuse.unknown else Kind.WRONG_TYPE
                yield _Remark(kind, policy.id, misuse.text, misuse.path)
        for test in as_texts(policy.condition) if policies.roles is not None else ():
            text = f"`{test}` knows neither seniority nor parameters of roles: use `AnyIn` or `AnyNotIn` of `$.roles`"
            yield _Remark(Kind.ROLES_AS_TEXT, policy.id, text, test.path)
    for policy, others in lavish(policies.policies):
        yield _Remark(Kind.ALLOWS_EVERYTHING, policy.id, _everything(policy.id, [each.id for each in others]))
    yield from map(_negative, gaps(policies))


def _everything(name: str, others: Sequence[str]) -> str:
    who = f", together with {_and(others)}," if others else ""
    return f"`{name}`{who} allows everything to everyone: name subjects, objects or actions"


def _and(several: Sequence[object]) -> str:
    return " and ".join(f"`{each}`" for each in several)


def _negative(gap: Gap) -> _Remark:
    name = gap.policy.id
    allows = gap.policy.effect is Effect.ALLOW
    text = (
        f"`{name}` {'does not apply' if allows else 'applies too'} where {_or(gap.about)} is missing or of another"
        f" type: in py-abac its negative conditions are {'true' if allows else 'false'} there"
    )
    return _Remark(Kind.NEGATIVE, name, text, gap.about[0] if gap.about else None)


def _or(several: Sequence[Path]) -> str:
    return " or ".join(f"`{each}`" for each in several)


def _overlaps(policies: list[Policy], algorithm: Algorithm) -> Iterator[_Remark]:
    """Policies that never decide anything by themselves, since another covers them."""
    order = {policy.id: number for number, policy in enumerate(policies)}
    index = CoverIndex((each.condition, each) for each in policies)
    pairs = (
        (one, other) for one in policies for other in index.candidates(one.condition) if other is not one
    )
    said = set[str]()
    for policy, other in islice(pairs, MOST_COMPARISONS):
        if policy.id in said or not _relevant(policy, other, algorithm):
            continue
        if covers(other.condition, policy.condition):
            same = _alike(policy, other, algorithm) and covers(policy.condition, other.condition)
            if same and order[policy.id] < order[other.id]:
                continue  # of two that say the same, the later one is too many
            said.add(policy.id)
            yield _overlap(policy, other, same)


def _relevant(policy: Policy, other: Policy, algorithm: Algorithm) -> bool:
    """Whether a policy has no say wherever the other applies too, or adds nothing to it."""
    if algorithm is Algorithm.HIGHEST_PRIORITY:
        if other.priority != policy.priority:
            return other.priority > policy.priority
        return other.effect is policy.effect or other.effect is Effect.DENY
    wins = Effect.ALLOW if algorithm is Algorithm.ALLOW_OVERRIDES else Effect.DENY
    return other.effect is policy.effect or other.effect is wins


def _alike(policy: Policy, other: Policy, algorithm: Algorithm) -> bool:
    """Whether two policies are the same if their conditions are."""
    rank = algorithm is Algorithm.HIGHEST_PRIORITY and policy.priority != other.priority
    return policy.effect is other.effect and not rank


def _overlap(policy: Policy, other: Policy, same: bool) -> _Remark:
    if same:
        return _Remark(Kind.DUPLICATE, policy.id, f"`{policy.id}` says the same as `{other.id}`")
    if other.effect is policy.effect:
        text = f"`{policy.id}` adds nothing: wherever it applies, `{other.id}` does, with the same effect"
        return _Remark(Kind.REDUNDANT, policy.id, text)
    text = f"`{policy.id}` never decides: wherever it applies, `{other.id}` does, and overrides it"
    return _Remark(Kind.SHADOWED, policy.id, text)


def _located(policies: PolicySet, remarks: Iterable[_Remark]) -> Iterator[Finding]:
    by_file: dict[str, list[_Remark]] = defaultdict(list)
    for each in remarks:
        by_file[policies.files[each.policy].path].append(each)
    for path, several in by_file.items():
        file = policies.files[several[0].policy]
        places = places_of(file, [(each.policy, each.attribute) for each in several])
        for each, (line, column) in zip(several, places, strict=True):
            yield Finding(each.kind, path, line, column, each.text, each.policy)


def _roles(policies: PolicySet) -> Iterator[Finding]:
    generous = list(lavish_rules(policies.roles.everything())) if policies.roles is not None else []
    for rules in policies.rule_sets:
        yield from _repeated(rules)
        trust = policies.roles.rulebook(rules.domain).trust if policies.roles is not None else {}
        for statement in rules.statements:
            if isinstance(statement, (Activation, Authorisation, Appointing)):
                yield from _rule(statement, rules.source, policies.manifest.attributes)
            if isinstance(statement, Authorisation):
                yield from _generous(statement, rules.source, generous)
            if isinstance(statement, Activation):
                yield from _nobodys_word(statement, rules.source, trust)


def _generous(statement: Authorisation, source: str, generous: Iterable[Authorisation]) -> Iterator[Finding]:
    for rule in generous:  # the same one, under its full name
        if rule.place == statement.place and str(rule.pattern) == str(statement.pattern):
            text = f"`{statement}` allows everything to everyone: anybody may activate `{statement.role}`"
            yield Finding(Kind.ALLOWS_EVERYTHING, source, *statement.place, text, rule.name)
            return


def _nobodys_word(rule: Activation, source: str, trust: Mapping[str, frozenset[str]]) -> Iterator[Finding]:
    """Certificates and facts that nobody's word counts for."""
    for each in rule.conditions:
        if isinstance(each, (Appointed, Fact)) and each.atom.name not in {*trust, PRINCIPAL}:
            text = f"`{rule}` never applies: write `trust KEY for {each.atom.name}` to say whose word counts for it"
            yield Finding(Kind.UNREACHABLE, source, *rule.place, text, rule.name)


def _keys(bundle: Bundle, policies: PolicySet) -> Iterator[Finding]:
    """Where roles are activated, the `key` of a subject says who may begin a session in its name."""
    if ROLES not in policies.provided:
        return
    for file in (each for each in bundle.files if each.kind is FileKind.ENTITIES):
        for name, entity in Entities.parse(file.text, file.path).subjects.items():
            for text in keys_of(entity):
                try:
                    PublicKey.parse(text)
                except InvalidKey as error:
                    place = Entities.locate(file.text, file.path, "subjects", name, str(error))
                    yield Finding(Kind.WRONG_TYPE, file.path, place.line, place.column, place.problem)


def _rule(
    statement: Activation | Authorisation | Appointing, source: str, schema: Schema | None
) -> Iterator[Finding]:
    conditions = statement.conditions if isinstance(statement, Activation) else statement.constraints
    constraints = [each.predicate for each in conditions if isinstance(each, Constraint)]
    if not satisfiable(And(tuple(constraints))):
        text = f"`{statement}` never applies: nothing meets its constraints"
        yield Finding(Kind.UNREACHABLE, source, *statement.place, text, statement.name)
    for constraint in constraints if schema is not None else ():
        for misuse in misuses(constraint, schema or {}):
            kind = Kind.UNKNOWN_ATTRIBUTE if misuse.unknown else Kind.WRONG_TYPE
            yield Finding(kind, source, *statement.place, misuse.text, statement.name)


def _repeated(rules: RuleSet) -> Iterator[Finding]:
    seen: dict[object, Authorisation] = {}
    for each in rules.statements:
        if isinstance(each, Authorisation):
            meaning = (each.role, each.constraints, each.actions, each.pattern)
            if (first := seen.setdefault(meaning, each)) is not each:
                text = f"`{each}` is in line {first.place.line} already"
                yield Finding(Kind.DUPLICATE, rules.source, *each.place, text, each.name)

"""Every policy source as rules over entities: role rules and label policies in the words of the one algebra.

Role rules have variables, so they are written out for the roles that subjects really have. Labels are read by the label
policy itself, into columns of roots of their own (`subject:...`), and compared like any other attribute.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from authz import Entity
from authz.predicate import (
    FALSE,
    TRUE,
    And,
    Equal,
    Exists,
    In,
    Not,
    Or,
    Overlaps,
    Path,
    Predicate,
    Regex,
    Relate,
)
from authz.request import Attributes
from pdp.abac.policy import Algorithm, Policy
from pdp.abac.source import AbacSource
from pdp.labels import Access, InvalidLabel, Labelling, LabelPolicy, LabelSource
from pdp.oasis import Instance, RoleSource
from pdp.oasis.constraint import bind, variables
from pdp.oasis.errors import InvalidTerm
from pdp.oasis.source import ROLES
from pdp.oasis.syntax import Authorisation
from pdp.oasis.terms import Bindings, match
from pdp.source import Effect, PolicySource
from spark_eval.errors import EvaluationError
from spark_eval.plan import Rules
from spark_eval.table import Derivation

ACTION, OBJECT = Path("action"), Path("object")
MAX_INSTANCES = 256
"""A role with more instances than these among the subjects is left to the PDP, where its parameters matter."""


class UnknownSource(EvaluationError):
    """Policies of a kind that decisions cannot be precomputed from."""

    def __init__(self, source: PolicySource) -> None:
        super().__init__(
            f"decisions of `{source.name}` cannot be precomputed: it is a {type(source).__name__}"
        )
        self.source = source.name


def needs_roles(sources: Iterable[PolicySource]) -> bool:
    """Whether the roles of the subjects must be known before there can be rules."""
    return any(isinstance(each, RoleSource) for each in sources)


def rules_of(sources: Sequence[PolicySource], roles: Collection[str] = ()) -> list[Rules]:
    """The rules of each source. `roles` are the texts that stand in `subject.roles` of any subject."""
    return [_rules(each, roles) for each in sources]


def derivations(sources: Sequence[PolicySource]) -> Mapping[str, Derivation]:
    """By root, the attributes that rules look for besides those of the entities."""
    found: dict[str, Derivation] = {}
    for source in sources:
        if isinstance(source, LabelSource):
            for root, labelling in _labellings(source.policy).items():
                found[root] = _reader(labelling)
    return found


def _rules(source: PolicySource, roles: Collection[str]) -> Rules:
    match source:
        case AbacSource():
            return Rules(source.policies, _algorithm(source), source.name)
        case RoleSource():
            return Rules(tuple(_role_policies(source, roles)), name=source.name)
        case LabelSource():
            return Rules(tuple(_label_policies(source.policy, source.name)), name=source.name)
    raise UnknownSource(source)


def _algorithm(source: AbacSource) -> Algorithm:
    """How the policies combine that are not left to the PDP anyway: those with obligations are."""
    allows = any(each.effect is Effect.ALLOW and not each.obligations for each in source.policies)
    overridden = source.algorithm is Algorithm.ALLOW_OVERRIDES and allows
    special = overridden or source.algorithm is Algorithm.HIGHEST_PRIORITY
    return source.algorithm if special else Algorithm.DENY_OVERRIDES


def _role_policies(source: RoleSource, roles: Collection[str]) -> Iterator[Policy]:
    """For each rule and each role that somebody has, and by which the rule applies, a policy without variables."""
    holders: dict[str, dict[Instance, list[str]]] = defaultdict(lambda: defaultdict(list))
    for text in sorted(roles):
        try:
            implied = source.rulebook.implied(Instance.parse(text))
        except InvalidTerm:
            continue
        for role in implied:
            holders[role.name][role].append(text)
    for rule in source.rulebook.authorisations:
        yield from _written_out(rule, holders.get(rule.role.name, {}))


def _written_out(rule: Authorisation, holders: Mapping[Instance, Sequence[str]]) -> Iterator[Policy]:
    conditions: dict[Predicate, list[str]] = defaultdict(list)
    for role, texts in holders.items():
        bindings = match(rule.role, role, {})
        if bindings is not None:
            conditions[_condition(rule, bindings)] += texts
    if len(conditions) > MAX_INSTANCES:
        everyone = [text for texts in conditions.values() for text in texts]
        unknown = Exists(Path.variable(str(rule.role)))
        conditions = {And((_condition(rule, {}), unknown)): everyone}
    for condition, texts in conditions.items():
        has_role = Overlaps(ROLES, tuple(dict.fromkeys(texts)))
        yield Policy(rule.name, Effect.ALLOW, And((has_role, condition)))


def _condition(rule: Authorisation, bindings: Bindings) -> Predicate:
    """What must be so besides the role. Variables that only the object's name would bind stay in it."""
    filled = {name: str(bindings[name]) for name in rule.pattern.names if name in bindings}
    constraints = [
        bind(each.predicate, bindings) if variables(each.predicate) <= bindings.keys() else each.predicate
        for each in rule.constraints
    ]
    return And((_actions(rule.actions), _objects(rule, filled), *constraints))


def _actions(actions: tuple[str, ...]) -> Predicate:
    return In(ACTION, actions) if len(actions) > 1 else Equal(ACTION, actions[0]) if actions else TRUE


def _objects(rule: Authorisation, filled: Mapping[str, str]) -> Predicate:
    pattern = rule.pattern
    if pattern.exact({}):
        return Equal(OBJECT, pattern.text)
    return Regex(OBJECT, pattern.regex(filled)) if pattern.segments else TRUE


def _reader(labelling: Labelling) -> Derivation:
    """The label of an entity; nothing if it has none."""

    def read(entity: Entity) -> Attributes:
        try:
            label = labelling.by_id(entity.id) or labelling.by_attribute(entity)
        except InvalidLabel:
            return {"bad": True}
        if label is None:
            return {}
        categories = [bit for bit in range(label.categories.bit_length()) if label.categories >> bit & 1]
        return {"rank": label.rank, "categories": categories}

    return Derivation(() if labelling.attribute is None else (labelling.attribute,), read)


def _labellings(policy: LabelPolicy) -> dict[str, Labelling]:
    """Where the labels of subjects and of objects are found, by root. Labels that are read otherwise have another."""
    found = {}
    for root, each in (("subject", policy.subjects), ("object", policy.objects)):
        meaning = repr((policy.lattice, each.attribute, sorted(each.table.items())))
        found[f"{root}:{hashlib.sha256(meaning.encode()).hexdigest()[:16]}"] = each
    return found


def _label_policies(policy: LabelPolicy, name: str) -> Iterator[Policy]:
    subject, object_ = _labellings(policy)
    listed = _having(policy, *Access)
    reads, appends = _having(policy, Access.READ, Access.WRITE), _having(policy, Access.APPEND, Access.WRITE)
    classified, cleared = Exists(Path(object_, ("rank",))), Exists(Path(subject, ("rank",)))
    bad_object, bad_subject = Exists(Path(object_, ("bad",))), Exists(Path(subject, ("bad",)))
    down, up = _dominates(subject, object_), _dominates(object_, subject)
    readable, appendable = Or((Not(reads), down)), Or((Not(appends), up))
    denials: dict[str, Predicate] = {
        "bad-label": Or((bad_object, And((classified, listed, bad_subject)))),
        "unlisted-action": And((classified, Not(listed))),
        "no-clearance": And((classified, listed, Not(bad_subject), Not(cleared))),
        "no-read-up": And((classified, reads, cleared, Not(down))),
        "no-write-down": And((classified, appends, cleared, readable, Not(up))),
    }
    for rule, condition in denials.items():
        yield Policy(f"{name}#{rule}", Effect.DENY, condition)
    if policy.permits:
        allowed = And((classified, listed, cleared, readable, appendable))
        yield Policy(f"{name}#dominance", Effect.ALLOW, allowed)


def _having(policy: LabelPolicy, *accesses: Access) -> Predicate:
    actions = tuple(action for action, access in policy.actions.items() if access in accesses)
    return In(ACTION, actions) if actions else FALSE


def _dominates(high: str, low: str) -> Predicate:
    return And(
        (
            Relate(Path(high, ("rank",)), ">=", Path(low, ("rank",))),
            Relate(Path(low, ("categories",)), "subset", Path(high, ("categories",))),
        )
    )

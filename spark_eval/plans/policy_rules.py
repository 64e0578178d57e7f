"""Every policy source as rules over entities: role rules and label policies in the words of the one algebra.

Role rules have variables, so they are written out for the roles that subjects really have. Labels are read by the label
policy itself, into columns of roots of their own (`subject:...`), and compared like any other attribute.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import structs

from authz import Entity
from authz.decision import Effect
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
    paths,
)
from authz.request import Attributes
from pdp.abac import Algorithm, Policy
from pdp.bundle import PolicySet
from pdp.labels import Access, InvalidLabel, Labelling, LabelPolicy
from pdp.oasis import (
    ROLES,
    Atom,
    Authorisation,
    Bindings,
    Instance,
    InvalidTerm,
    Rulebook,
    about,
    bind,
    match,
    variables,
)
from spark_eval.columns import Derivation
from spark_eval.plans.joins import moved
from spark_eval.plans.plan import MAX_NAMED, Grant, Rules

ACTION, OBJECT = Path("action"), Path("object")
MAX_INSTANCES = 256
"""A role with more instances than these among the subjects is left to the PDP, where its parameters matter."""


def needs_roles(policies: PolicySet) -> bool:
    """Whether the roles of the subjects must be known before there can be rules."""
    return policies.roles is not None


def rules_of(policies: PolicySet, roles: Collection[str] = (), ask_roles: bool = False) -> list[Rules]:
    """The rules of each source of policies. `roles` are the texts that stand in `subject.roles` of any subject.

    With `ask_roles` nobody's roles are known, and whatever depends on them is left to the PDP.
    """
    found = [
        Rules(tuple(map(_ask_roles, several) if ask_roles else several), _algorithm(several, algorithm), name)
        for name, several, algorithm in policies.combined()
    ]
    if policies.roles is not None:
        rulebook = policies.roles.everything()
        found.append(_asked_rules(rulebook) if ask_roles else _role_rules(rulebook, roles))
    return found + [
        Rules(tuple(_label_policies(each, name)), name=name) for name, each in policies.labels.items()
    ]


def _ask_roles(policy: Policy) -> Policy:
    """The policy, looking for roles where only the request has them."""
    places = {
        path: Path.variable(str(path)) for path in paths(policy.condition) if path.keys[:1] == ROLES.keys
    }
    places = {path: place for path, place in places.items() if path.root == ROLES.root}
    return structs.replace(policy, condition=moved(policy.condition, places)) if places else policy


def _asked_rules(rulebook: Rulebook) -> Rules:
    """The role rules, each under the condition that the asker has its role."""
    return Rules(tuple(_asked(rule) for rule in rulebook.authorisations), name="roles")


def _asked(rule: Authorisation) -> Policy:
    has_role = Exists(Path.variable(str(rule.role)))
    return Policy(rule.name, Effect.ALLOW, And((_condition(rule, {}), has_role)))


def derivations(policies: PolicySet) -> Mapping[str, Derivation]:
    """By root, the attributes that rules look for besides those of the entities."""
    found: dict[str, Derivation] = {}
    for policy in policies.labels.values():
        for root, labelling in _labellings(policy).items():
            found[root] = _reader(labelling)
    return found


def _algorithm(policies: Sequence[Policy], algorithm: Algorithm) -> Algorithm:
    """How the policies combine that are not left to the PDP anyway: those with obligations are."""
    allows = any(each.effect is Effect.ALLOW and not each.obligations for each in policies)
    overridden = algorithm is Algorithm.ALLOW_OVERRIDES and allows
    special = overridden or algorithm is Algorithm.HIGHEST_PRIORITY
    return algorithm if special else Algorithm.DENY_OVERRIDES


_Bound: TypeAlias = list[tuple[Bindings, list[str]]]
"""What the variables of a rule's role are, and the texts of the roles by which they are that."""


def _role_rules(rulebook: Rulebook, roles: Collection[str]) -> Rules:
    """For each rule and each role that somebody has, and by which the rule applies, a policy without variables.

    Where rules are so many that they are not told apart, those about objects by name go together, role by role.
    """
    holders = _Holders(rulebook, roles)
    policies: list[Policy] = []
    granted: dict[tuple[Atom, tuple[str, ...]], tuple[list[str], list[str]]] = {}
    many = len(rulebook.authorisations) > MAX_NAMED
    for rule in rulebook.authorisations:
        if many and not rule.constraints and rule.pattern.exact({}):
            names, objects = granted.setdefault((rule.role, rule.actions), ([], []))
            names.append(rule.name)
            objects.append(rule.pattern.text)
        else:
            policies += _written_out(rule, holders.of(rule.role))
    grants = (
        Grant(tuple(names), _has_role(holders.of(role)), And((about(actions), In(OBJECT, tuple(objects)))))
        for (role, actions), (names, objects) in granted.items()
        if holders.of(role)
    )
    return Rules(tuple(policies), name="roles", grants=tuple(grants))


class _Holders:
    """The roles that somebody has, by the roles that rules are about. Thousands of rules are about the same few."""

    def __init__(self, rulebook: Rulebook, roles: Collection[str]) -> None:
        self._instances: dict[str, dict[Instance, list[str]]] = defaultdict(lambda: defaultdict(list))
        self._found: dict[Atom, _Bound] = {}
        for text in sorted(roles):
            try:
                implied = rulebook.implied(Instance.parse(text))
            except InvalidTerm:
                continue
            for role in implied:
                self._instances[role.name][role].append(text)

    def of(self, role: Atom) -> _Bound:
        """What the variables of the role can be, and by which texts."""
        if role not in self._found:
            instances = self._instances.get(role.name, {})
            bound = ((match(role, each, {}), texts) for each, texts in instances.items())
            self._found[role] = [(bindings, texts) for bindings, texts in bound if bindings is not None]
        return self._found[role]


def _has_role(holders: _Bound) -> Predicate:
    return Overlaps(ROLES, tuple(dict.fromkeys(text for _, texts in holders for text in texts)))


def _written_out(rule: Authorisation, holders: _Bound) -> Iterator[Policy]:
    conditions: dict[Predicate, list[str]] = defaultdict(list)
    for bindings, texts in holders:
        conditions[_condition(rule, bindings)] += texts
    if len(conditions) > MAX_INSTANCES:
        everyone = [text for texts in conditions.values() for text in texts]
        conditions = {_asked(rule).condition: everyone}
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
    return And((about(rule.actions), _objects(rule, filled), *constraints))


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

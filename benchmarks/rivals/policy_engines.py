"""Other policy engines, given the same policies in their own words and the same requests as plain values.

Each is used as its documentation advises for speed: policies parsed once, the whole set in one expression
for CEL, indexed policies for casbin. Building the engine's own request from ours is part of every call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import casbin
import cedarpy
import cel
import vakt
import yacedar
from casbin.model.model_fast import FastModel
from vakt import rules

from authz import Entity, Request
from authz.decision import Effect
from authz.predicate import And, AnyComparison, Equal, In, Order, Overlaps, Path, Prefix
from pdp.abac import Policy


class Peer(Protocol):
    def allows(self, request: Request) -> bool: ...


def terms(policy: Policy) -> tuple[AnyComparison, ...]:
    """The comparisons of a policy: the workloads have nothing else."""
    assert isinstance(policy.condition, And)
    return policy.condition.terms  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Grant:
    """A role's policy, taken apart."""

    role: str
    objects: tuple[str, ...]
    actions: tuple[str, ...]

    @classmethod
    def of(cls, policy: Policy) -> Grant:
        found = {term.path.root: term for term in terms(policy)}
        roles, objects, actions = (_constants(found[root]) for root in ("subject", "object", "action"))
        return cls(roles[0], objects, actions)


def _constants(term: AnyComparison) -> tuple[str, ...]:
    if isinstance(term, (In, Overlaps)):
        return tuple(map(str, term.values))
    assert isinstance(term, Equal)
    return (str(term.value),)


class Vakt:
    """vakt: a rule for each attribute."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        storage = vakt.MemoryStorage()
        for policy in policies:
            storage.add(self._policy(policy))
        self._guard = vakt.Guard(storage, vakt.RulesChecker())

    def _policy(self, policy: Policy) -> Any:
        found: dict[str, dict[str, Any]] = {"subject": {}, "object": {}, "action": {}}
        for term in terms(policy):
            found[term.path.root][str(term.path.keys[0]) if term.path.keys else "id"] = _vakt_rule(term)
        return vakt.Policy(
            policy.id,
            effect=vakt.ALLOW_ACCESS if policy.effect is Effect.ALLOW else vakt.DENY_ACCESS,
            subjects=[found["subject"] or rules.Any()],
            resources=[found["object"] or rules.Any()],
            actions=[found["action"].get("id", rules.Any())],
        )

    def allows(self, request: Request) -> bool:
        subject, place = request.subject, request.object
        inquiry = vakt.Inquiry(
            subject={"id": subject.id, **subject.attributes},
            resource={"id": place.id, **place.attributes},
            action=request.action.id,
        )
        return bool(self._guard.is_allowed(inquiry))


def _vakt_rule(term: AnyComparison) -> Any:
    match term:
        case Equal(_, value):
            return rules.Eq(value)
        case In(_, values):
            return rules.In(*values)
        case Prefix(_, value):
            return rules.StartsWith(value)
        case Order(_, ">=", value):
            return rules.GreaterOrEqual(value)
        case Overlaps(_, values):
            return rules.AnyIn(*values)
    raise NotImplementedError(term)


class Cel:
    """common-expression-language: one expression, denies first."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        denies = " || ".join(_cel(each) for each in policies if each.effect is Effect.DENY) or "false"
        allows = " || ".join(_cel(each) for each in policies if each.effect is Effect.ALLOW) or "false"
        self._program = cel.compile(f"!({denies}) && ({allows})")

    def allows(self, request: Request) -> bool:
        subject, place = request.subject, request.object
        asked = {
            "subject": {"id": subject.id, **subject.attributes},
            "object": {"id": place.id, **place.attributes},
            "action": request.action.id,
        }
        return bool(self._program.execute(asked))


def _cel(policy: Policy) -> str:
    """What decides most cheaply stands first: attributes, then the action, then prefixes."""
    cheapest_first = sorted(
        terms(policy), key=lambda each: (isinstance(each, Prefix), each.path.root == "action")
    )
    return "(" + " && ".join(map(_cel_term, cheapest_first)) + ")"


def _cel_term(term: AnyComparison) -> str:
    place = _dotted(term.path)
    match term:
        case Equal(_, value):
            return f"{place} == {json.dumps(value)}"
        case In(_, values):
            return f"{place} in {json.dumps(values)}"
        case Prefix(_, value):
            return f"{place}.startsWith({json.dumps(value)})"
        case Order(_, op, value):
            return f"{place} {op} {json.dumps(value)}"
        case Overlaps(_, (value,)):
            return f"{json.dumps(value)} in {place}"
    raise NotImplementedError(term)


def _dotted(path: Path) -> str:
    if path.root == "action":
        return "action"
    return f"{path.root}.{path.keys[0] if path.keys else 'id'}"


def _cedar(policy: Policy) -> str:
    """Names in the head of the policy, where Cedar can use them."""
    principal, action, when = "principal", "action", []
    for term in terms(policy):
        match term:
            case Equal(Path("subject", ()), value):
                principal = f"principal == User::{json.dumps(value)}"
            case Equal(Path("action", ()), value):
                action = f"action == Action::{json.dumps(value)}"
            case In(Path("action", ()), values):
                action = "action in [" + ", ".join(f"Action::{json.dumps(each)}" for each in values) + "]"
            case Prefix(Path("object", ()), value):
                when.append(f"resource.path like {json.dumps(value + '*')}")
            case Equal(path, value):
                when.append(f"{_cedar_path(path)} == {json.dumps(value)}")
            case Order(path, op, value):
                when.append(f"{_cedar_path(path)} {op} {json.dumps(value)}")
            case _:
                raise NotImplementedError(term)
    effect = "permit" if policy.effect is Effect.ALLOW else "forbid"
    conditions = f" when {{ {' && '.join(when)} }}" if when else ""
    return f"{effect} ({principal}, {action}, resource){conditions};"


def _cedar_path(path: Path) -> str:
    return f"{'principal' if path.root == 'subject' else 'resource'}.{path.keys[0]}"


def _cedar_entity(kind: str, entity: Entity) -> dict[str, Any]:
    return {
        "uid": {"type": kind, "id": entity.id},
        "attrs": {"path": entity.id, **entity.attributes},
        "parents": [],
    }


# Roles the way Cedar is fastest: one policy for each action, and who may do it written on each object.
# Subjects, their roles and the objects are known before the first request.
_CEDAR_ROLES = "\n".join(
    f'permit (principal, action == Action::"{each}", resource) when {{ principal in resource.{each} }};'
    for each in ("read", "write", "delete")
)


def _cedar_known(grants: Iterable[Grant], requests: Iterable[Request]) -> list[dict[str, Any]]:
    objects: dict[str, dict[str, list[Any]]] = {}
    for grant in grants:
        for place in grant.objects:
            may = objects.setdefault(place, {"read": [], "write": [], "delete": []})
            for action in grant.actions:
                may[action].append({"__entity": {"type": "Role", "id": grant.role}})
    subjects = [
        {
            "uid": {"type": "User", "id": each.id},
            "attrs": {},
            "parents": [{"type": "Role", "id": role} for role in each.attributes["roles"]],  # type: ignore[attr-defined]
        }
        for each in _subjects(requests)
    ]
    return [
        *subjects,
        *({"uid": {"type": "Object", "id": k}, "attrs": v, "parents": []} for k, v in objects.items()),
    ]


def _subjects(requests: Iterable[Request]) -> Iterable[Entity]:
    return {each.subject.id: each.subject for each in requests}.values()


class Yacedar:
    """Cedar. With roles, who has them is known beforehand; other attributes come with each request."""

    def __init__(self, policies: Sequence[Policy], known: Sequence[Request] = ()) -> None:
        self._policies = yacedar.PolicySet(_CEDAR_ROLES if known else "\n".join(map(_cedar, policies)))
        self._authorizer = yacedar.Authorizer()
        self._known = yacedar.Entities(_cedar_known(map(Grant.of, policies), known)) if known else None

    def allows(self, request: Request) -> bool:
        asked = yacedar.Request(
            principal=f'User::"{request.subject.id}"',
            action=f'Action::"{request.action.id}"',
            resource=f'Object::"{request.object.id}"',
        )
        entities = self._known
        if entities is None:
            entities = yacedar.Entities(
                [_cedar_entity("User", request.subject), _cedar_entity("Object", request.object)]
            )
        return bool(self._authorizer.is_authorized(asked, self._policies, entities).is_allowed)


class Cedarpy:
    """Cedar again, by another binding."""

    def __init__(self, policies: Sequence[Policy], known: Sequence[Request] = ()) -> None:
        self._policies = cedarpy.PolicySet.from_str(
            _CEDAR_ROLES if known else "\n".join(map(_cedar, policies))
        )
        text = json.dumps(_cedar_known(map(Grant.of, policies), known)) if known else ""
        self._known = cedarpy.Entities.from_json_str(text) if known else None

    def allows(self, request: Request) -> bool:
        asked = {
            "principal": {"type": "User", "id": request.subject.id},
            "action": {"type": "Action", "id": request.action.id},
            "resource": {"type": "Object", "id": request.object.id},
            "context": {},
        }
        entities = self._known or [
            _cedar_entity("User", request.subject),
            _cedar_entity("Object", request.object),
        ]
        return bool(cedarpy.is_authorized(asked, self._policies, entities).allowed)


_ABAC_MODEL = """
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub_rule, obj, act, eft
[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))
[matchers]
m = (p.act == "*" || regexMatch(r.act, p.act)) && keyMatch(r.obj.id, p.obj) && eval(p.sub_rule)
"""

_RBAC_MODEL = """
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act
"""


class _Attributes:
    """What casbin's expressions read attributes from."""

    def __init__(self, name: str, attributes: dict[str, object]) -> None:
        self.__dict__.update(attributes, id=name)


class CasbinAttributes:
    """casbin with a rule in each policy, evaluated by its matcher."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        model = casbin.Model()
        model.load_model_from_text(_ABAC_MODEL)
        self._enforcer = casbin.Enforcer(model)
        for policy in policies:
            self._enforcer.add_policy(*_casbin(policy))

    def allows(self, request: Request) -> bool:
        subject, place = request.subject, request.object
        return bool(
            self._enforcer.enforce(
                _Attributes(subject.id, subject.attributes),
                _Attributes(place.id, place.attributes),
                request.action.id,
            )
        )


def _casbin(policy: Policy) -> tuple[str, str, str, str]:
    rule, place, action = [], "*", "*"
    for term in terms(policy):
        match term:
            case Prefix(Path("object", ()), value):
                place = f"{value}*"
            case Equal(Path("action", ()), value):
                action = f"^{value}$"
            case In(Path("action", ()), values):
                action = f"^({'|'.join(map(str, values))})$"
            case Equal(path, value):
                rule.append(
                    f"r.{'sub' if path.root == 'subject' else 'obj'}.{_name(path)} == {json.dumps(value)}"
                )
            case Order(path, op, value):
                rule.append(f"r.sub.{_name(path)} {op} {value}")
            case _:
                raise NotImplementedError(term)
    return " && ".join(rule) or "true", place, action, policy.effect.value


def _name(path: Path) -> str:
    return str(path.keys[0]) if path.keys else "id"


class CasbinRoles:
    """casbin's own role model, in the enforcer that files policies by object and action."""

    def __init__(self, policies: Sequence[Policy], requests: Iterable[Request]) -> None:
        model = FastModel([1, 2])
        model.load_model_from_text(_RBAC_MODEL)
        self._enforcer = casbin.FastEnforcer(model, cache_key_order=[1, 2])
        for grant in map(Grant.of, policies):
            for place in grant.objects:
                for action in grant.actions:
                    self._enforcer.add_policy(grant.role, place, action)
        for subject in _subjects(requests):
            for role in subject.attributes["roles"]:  # type: ignore[attr-defined]
                self._enforcer.add_role_for_user(subject.id, role)

    def allows(self, request: Request) -> bool:
        return bool(self._enforcer.enforce(request.subject.id, request.object.id, request.action.id))

"""Roles in attribute policies: compared through the role domain, so that seniority and parameters count.

Where a bundle has role rules, `AnyIn [editor]` of `$.roles` holds of whoever counts as an editor: by the role, with
whatever parameters, or by one senior to it. `AnyIn ["nurse(ward7)"]` asks for these parameters. Negations follow.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from authz.change import ROLES
from authz.predicate import (
    AnyComparison,
    Exists,
    Kind,
    Names,
    Or,
    Overlaps,
    Predicate,
    Relate,
    Scalar,
    Subset,
    comparisons,
    map_comparisons,
)
from pdp.abac import Policy
from pdp.oasis import Instance, InvalidTerm, RoleHierarchy


def by_role_domain(policy: Policy, seniors: RoleHierarchy) -> Policy:
    """The policy with its comparisons of roles as the role domain has them. Raises InvalidTerm."""
    condition = map_comparisons(policy.condition, lambda test: _counted(test, seniors))
    return structs.replace(policy, condition=condition) if condition != policy.condition else policy


def as_texts(condition: Predicate) -> Iterator[AnyComparison]:
    """Comparisons of roles in which neither seniority nor parameters can count."""
    for test in comparisons(condition):
        paths = (test.path, test.other) if isinstance(test, Relate) else (test.path,)
        about = any((path.root, path.keys[:1]) == (ROLES.root, ROLES.keys) for path in paths)
        whole = test.path == ROLES and (
            isinstance(test, Overlaps | Names | Exists | Kind) or test == Subset(ROLES, ())
        )
        if about and not whole:
            yield test


def _counted(test: AnyComparison, seniors: RoleHierarchy) -> Predicate:
    if not isinstance(test, Overlaps) or test.path != ROLES:
        return test
    texts: list[Scalar] = []
    names: list[str] = []
    for value in test.values:
        role = _role(value)
        if isinstance(role, Instance):
            texts += map(str, seniors.of(role))
        elif role is None:
            texts.append(value)
        else:
            for name in seniors.named(role):
                (texts if seniors.is_plain(name) else names).append(name)
    terms = [Names(ROLES, tuple(dict.fromkeys(names)))] if names else []
    if not texts and terms:
        return terms[0]
    by_text = Overlaps(ROLES, tuple(texts))
    return Or((by_text, *terms)) if terms else by_text


def _role(value: Scalar) -> str | Instance | None:
    """The role that a policy names: by its name alone, or with its parameters; None if it is none."""
    if not isinstance(value, str):
        return None
    if "(" not in value:
        return value
    try:
        return Instance.parse(value)
    except InvalidTerm:
        return None

"""What comes with a role: the grants of its empowering rules, as capabilities and brokers understand them."""

from __future__ import annotations

from authz.spki import Grant, InvalidCapability, Kind, Resource, Right
from pdp.oasis.constraint import bind_as_written
from pdp.oasis.rulebook import Rulebook
from pdp.oasis.syntax import Empowering
from pdp.oasis.terms import Bindings, Instance, match


def grants_of(rulebook: Rulebook, role: Instance) -> tuple[Grant, ...]:
    """What comes with a role, and with those it implies. Raises InvalidCapability."""
    return tuple(
        grant(rule, bindings)
        for implied in rulebook.implied(role)
        for rule in rulebook.empowerings
        if (bindings := match(rule.role, implied, {})) is not None
    )


def grant(rule: Empowering, bindings: Bindings) -> Grant:
    """What a rule grants, its variables being what they are. Raises InvalidCapability."""
    rights = frozenset(map(_right, rule.rights))
    kinds = {right.kind for right in rights}
    if len(kinds) > 1:
        raise InvalidCapability("rights", "must all be over the same kind of resource: write a rule for each")
    kind = kinds.pop() if kinds else Kind.TYPE
    where = () if rule.where is None else (bind_as_written(rule.where, bindings),)
    return Grant.of(Resource.of(kind, rule.resource), rights or None, rule.attributes or None, where)


def _right(name: str) -> Right:
    try:
        return Right(name)
    except ValueError:
        known = ", ".join(f"`{each}`" for each in Right)
        raise InvalidCapability("rights", f"cannot have `{name}`: use some of {known}") from None

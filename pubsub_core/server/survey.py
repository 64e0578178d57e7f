"""Surveys: what a subscription would be granted, and how far interest in its type extends.

From the filter, what policies and capabilities leave of it, and what the filter means for each sub-type; interest from
the subscriptions here and what other brokers say they want.
"""

from __future__ import annotations

from collections.abc import Collection

from authz.predicate import TRUE, And, Predicate, covers, satisfiable
from pubsub_core.access import Granted, Restriction
from pubsub_core.broker import Broker, Claims
from pubsub_core.delivery import Subscription
from pubsub_core.errors import InvalidFilter
from pubsub_core.messages import Extent
from pubsub_core.rules import described
from pubsub_core.types import Catalogue, name_filter

DENIED = "not permitted"
HIDDEN = "the filter asks about what may not be read"
CONTRARY = "nothing passes both the filter and what restricts it"


def survey(broker: Broker, claims: Claims, subscription: Subscription, granted: Granted) -> Extent:
    """What is known here of a subscription that nobody has made yet."""
    catalogue, missing, complete = broker.setting.catalogue, list[str](), True
    family = catalogue.family(subscription.type)
    for each in family:
        left = granted.restrictions.get(each.id)
        problem, whole = _outlook(claims, subscription, left)
        complete &= whole
        if problem:
            missing.append(f"{each.name}: {problem}")
    types = {each.id for each in family}
    trusts = broker.presence.trusts
    return Extent(
        len(missing) < len(family),
        complete,
        tuple(missing),
        sum(
            any(id_ in types and trusts(peer.key, id_) for id_ in peer.wants)
            for peer in broker.peers.values()
        ),
        sum(
            _concerns(each, types)
            for session in broker.sessions.values()
            for each in session.subscriptions.values()
        ),
        sum(
            any(types & granted.keys() for granted in session.adverts.values())
            for session in broker.sessions.values()
        ),
    )


def describe(catalogue: Catalogue, id_: str, restriction: Restriction) -> str:
    """What a restriction leaves of a type, in words."""
    definition = catalogue.newest(id_)
    attributes = catalogue.attributes(definition.version)
    parts = [f"{definition.name}: {restriction.kind}"]
    if restriction.visible is not None:
        seen = [each.name for id_, each in attributes.items() if id_ in restriction.visible]
        parts.append(f"attributes {', '.join(seen) or 'none'}")
    if restriction.filter != TRUE:
        parts.append(f"where {name_filter(restriction.filter, attributes)}")
    parts += [f"{attributes[key].name} is always {value!r}" for key, value in restriction.forced.items()]
    parts += [f"predicate {each.name}" for each in restriction.checks]
    for rules in restriction.every_rule:
        parts += described(rules, attributes)
    return "; ".join(parts)


def _outlook(claims: Claims, subscription: Subscription, left: Restriction | None) -> tuple[str, bool]:
    """Why nothing can come of a type, if so; and whether everything that is asked for could."""
    if left is None:
        return DENIED, False
    try:
        asked = claims.bound(subscription, left)
    except InvalidFilter:
        return HIDDEN, False
    bounds: Predicate = And((left.filter, left.pushed))
    if not satisfiable(And((asked, bounds))):
        return CONTRARY, False
    return "", not left.checks and not left.options and covers(bounds, asked)


def _concerns(subscription: Subscription, types: Collection[str]) -> bool:
    return not subscription.granted.keys().isdisjoint(types)

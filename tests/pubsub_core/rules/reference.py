"""What rules mean, said plainly: every rule is looked at, by names, for one event. Slow, and obviously right.

A condition is true, false, or, if it turns on something that nobody knows, None; only what is certain lets any through.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby

from authz.predicate import And, Equal, Exists, In, Not, Or, Order, Path, Predicate, Relate
from authz.predicate.values import RELATIONS
from authz.rules import Allow, Call, Restrict, Transform, parse_rules, parse_term
from authz.rules.syntax import Body

Named = dict[str, object]


class Unknown(Exception):
    """Nobody knows."""


@dataclass
class World:
    """The state of affairs, and who asks."""

    user: Mapping[str, object]
    holding: set[tuple[str, tuple[object, ...]]] = field(default_factory=set)
    fluents: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Named]] = field(default_factory=dict)
    now: float = 0.0


@cache
def parsed(text: str) -> Body:
    return parse_rules(text)[0].body


def holds(predicate: Predicate, event: Named, world: World) -> bool | None:
    match predicate:
        case And(terms):
            found = [holds(each, event, world) for each in terms]
            return False if False in found else None if None in found else True
        case Or(terms):
            found = [holds(each, event, world) for each in terms]
            return True if True in found else None if None in found else False
        case Not(term):
            inner = holds(term, event, world)
            return None if inner is None else not inner
    try:
        return _test(predicate, event, world)
    except Unknown:
        return None


def _test(test: Predicate, event: Named, world: World) -> bool:
    value = _value(test.path, event, world)  # type: ignore[union-attr]
    match test:
        case Equal(_, constant):
            return RELATIONS["=="](value, constant)
        case Order(_, op, constant):
            return RELATIONS[op](value, constant)
        case In(_, constants):
            return value in constants
        case Exists():
            return value is not None
        case Relate(_, op, other):
            return RELATIONS[op](value, _value(other, event, world))
    raise AssertionError(test)


def _value(path: Path, event: Named, world: World) -> object:
    if path.root == "user":
        return world.user[str(path.keys[0]) if path.keys else "subject"]
    if path.root == "event":
        return event.get(str(path.keys[0]))
    return _term(parse_term(str(path.keys[0])).base, event, world)


def _term(call: Call, event: Named, world: World) -> object:
    given = [_value(each, event, world) if isinstance(each, Path) else each for each in call.arguments]
    if call.name == "now":
        return world.now
    if call.name == "lookup":
        if given[0] not in world.tables:
            raise Unknown
        return world.tables[str(given[0])].get(str(given[1]), {}).get(str(given[2]))
    if world.fluents.get(call.name) != len(given):
        raise Unknown
    return (call.name, tuple(given)) in world.holding


def shown(rules: list[tuple[str, str]], event: Named, kind: str, world: World) -> dict[str, Named] | None:
    """What becomes of an event, by the names of types; nothing if it is held back, None if nobody knows."""
    bodies = [(id_, parsed(text)) for id_, text in rules]
    states = {id_: _any(bodies, id_, event, world) for id_, _ in bodies}
    allows = [states[id_] for id_, body in bodies if isinstance(body, Allow)]
    if allows and True not in allows:
        return None if None in allows else {}
    others = {id_: body for id_, body in bodies if isinstance(body, Restrict | Transform)}
    if any(states[id_] is None for id_ in others):
        return None
    applying = {id_: body for id_, body in others.items() if states[id_]}
    beaten = {each for body in applying.values() for each in body.overrides}
    force = {id_: body for id_, body in applying.items() if id_ not in beaten}
    passed = [holds(body.filter, event, world) for body in force.values() if isinstance(body, Restrict)]
    if False in passed:
        return {}
    if None in passed:
        return None
    changes = sorted(
        ((body.to, _order(id_), body) for id_, body in force.items() if isinstance(body, Transform)),
        key=lambda each: each[:2],
    )
    if not changes:
        return {kind: event}
    return {
        to: _stepped([step for *_, body in some for step in body.steps], event)
        for to, some in groupby(changes, key=lambda each: each[0])
    }


def _any(bodies: list[tuple[str, object]], id_: str, event: Named, world: World) -> bool | None:
    """Whether a rule, which may come in several alternatives, applies."""
    return holds(Or(tuple(body.where for each, body in bodies if each == id_)), event, world)  # type: ignore[attr-defined]


def _order(id_: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?)(\d*)", id_)
    assert found is not None
    return found[1], int(found[2] or -1)


def _stepped(steps: list[Call], event: Named) -> Named:
    values = dict(event)
    for call in steps:
        name = str(call.arguments[0].keys[0]) if call.arguments else ""  # type: ignore[union-attr]
        STEPS[call.name](values, name, *call.arguments[1:])
    return values


def _drop(values: Named, name: str) -> None:
    values.pop(name, None)


def _round(values: Named, name: str, unit: float) -> None:
    if name in values:
        values[name] = math.floor(values[name] / unit) * unit  # type: ignore[operator]


def _bucket(values: Named, name: str, low: str, bound: float, high: str) -> None:
    if name in values:
        values[name] = low if values[name] < bound else high  # type: ignore[operator]


STEPS: Mapping[str, Callable[..., None]] = {
    "drop": _drop,
    "null": _drop,
    "round": _round,
    "bucket": _bucket,
    "keep": lambda values, name: None,
}

"""Types as an event and the rules about it suggest, where nobody has brought their definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import uuid4

from authz import Identity
from authz.predicate import Equal, In, Order, Path, comparisons, paths
from authz.predicate.filter import EVENT
from authz.rules import AutoReplay, Call, Rule, Transform, parse_term
from authz.rules.reader import conditions_of
from authz.rules.terms import CREDENTIALS
from pdp.rules import Interaction, type_of
from pubsub_core.types import AttributeType, Catalogue, EventType, SignedType

_STEPS: Mapping[str, AttributeType] = {
    "bucket": AttributeType.FLOAT,
    "round": AttributeType.FLOAT,
    "perturb": AttributeType.FLOAT,
    "period": AttributeType.TIMESTAMP,
    "place": AttributeType.GEO,
}
"""Steps that are done to attributes of one type."""
_KINDS: Mapping[type, AttributeType] = {
    bool: AttributeType.BOOLEAN,
    int: AttributeType.INTEGER,
    float: AttributeType.FLOAT,
    dict: AttributeType.GEO,
}


def guess(type_: str, event: Mapping[str, object], rules: Interaction) -> Catalogue:
    """A catalogue with one type: it has what the event has, and what rules about it speak of besides."""
    kinds = {name: _kind(value) for name, value in event.items()}
    for file in rules.files:
        for rule in file.rules:
            if type_of(rule) == type_:
                for name, kind in _mentioned(rule):
                    kinds.setdefault(name, kind)
    catalogue = Catalogue()
    define(catalogue, type_, kinds)
    return catalogue


def define(catalogue: Catalogue, name: str, kinds: Mapping[str, AttributeType]) -> None:
    """Put a type into the catalogue."""
    owner = Identity.generate()
    definition = EventType.new(name, owner.public, kinds.items(), uuid4)
    catalogue.accept(SignedType.sign(definition, owner), 0.0)


def _kind(value: object) -> AttributeType:
    return _KINDS.get(type(value), AttributeType.STRING)


def _mentioned(rule: Rule) -> Iterator[tuple[str, AttributeType]]:
    body = rule.body
    conditions = conditions_of(body)
    for condition in (
        conditions[:2] if isinstance(body, AutoReplay) else conditions
    ):  # the third is about the trigger
        for test in comparisons(condition):
            value = test.values[0] if isinstance(test, In) else getattr(test, "value", "")
            kind = _kind(value) if isinstance(test, Equal | Order | In) else AttributeType.STRING
            for path in paths(test):
                yield from ((name, kind) for name in _names(path))
    for call in body.steps if isinstance(body, Transform) else ():
        kind = _STEPS.get(call.name, AttributeType.STRING)
        yield from ((name, kind) for each in _read(call) for name in _names(each))


def _read(call: Call) -> list[Path]:
    """The attributes that a step needs; `rename` and `enrich` name new ones too."""
    given = [each for each in call.arguments if isinstance(each, Path)]
    return {"rename": given[:1], "enrich": given[1:]}.get(call.name, given)


def _names(path: Path) -> Iterator[str]:
    if path.root == EVENT:
        yield str(path.keys[0])
    elif not path.root:
        yield from _arguments(parse_term(str(path.keys[0])).base)


def _arguments(call: Call) -> Iterator[str]:
    for each in call.arguments if call.name != CREDENTIALS else ():
        if isinstance(each, Call):
            yield from _arguments(each)
        elif isinstance(each, Path):
            yield from _names(each)

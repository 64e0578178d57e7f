"""A subscriber's own filter where rules alter events: it is held against what the subscriber gets to see.

Otherwise a filter by what is left out, or blurred, would tell what it was. Invariant: whether an altered event is
delivered follows from the event as altered, and from attributes that no rule alters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from authz.predicate import EVENT, TRUE, Predicate, compile_predicate
from authz.predicate.filter import parse_filter
from pubsub_core.errors import InvalidFilter, UnknownType
from pubsub_core.events import Event, sift
from pubsub_core.rules.interaction import Bar, Change, Interaction
from pubsub_core.types import Attribute, Catalogue, bind_filter, check_filter

Names: TypeAlias = Mapping[str, Attribute]
"""The attributes of a type by name."""


class _Bound(NamedTuple):
    """The filter by the names of one version."""

    predicate: Predicate
    test: Callable[[Mapping[str, object]], bool]


class SubscriberFilter:
    """What a subscription asked for, by the names of whatever type an event has become."""

    def __init__(self, filter_: str, type_: str, catalogue: Catalogue) -> None:
        """`type_` is the UUID of the type subscribed to."""
        self._filter = filter_
        self._type = type_
        self._catalogue = catalogue
        self._bound: dict[str, _Bound | None] = {}

    def holds(self, event: Event) -> bool:
        """Whether the filter lets it through; one about what it does not have does not."""
        known = self._known(event)
        return known is not None and known.test(event.attributes)

    def sift(self, events: Sequence[Event | None]) -> list[Event | None]:
        """Those of events of one version that it lets through; None in place of the others."""
        known = next((self._known(each) for each in events if each is not None), None)
        return [None] * len(events) if known is None else sift(known.predicate, events)

    def _known(self, event: Event) -> _Bound | None:
        if event.version not in self._bound:
            self._bound[event.version] = self._bind(event)
        return self._bound[event.version]

    def _bind(self, event: Event) -> _Bound | None:
        catalogue = self._catalogue
        own = any(event.type == each.id for each in catalogue.family(self._type))
        version = catalogue.newest(self._type).version if own else event.version
        try:
            bound = bind_filter(parse_filter(self._filter), catalogue.names(version))
        except InvalidFilter:
            return None
        return _Bound(bound, compile_predicate(bound, EVENT))


def shown_instead(
    type_: str, rules: Iterable[Sequence[Interaction]], catalogue: Catalogue
) -> dict[str, Names]:
    """The types as which rules show every event of a type and its sub-types; none if they show any as it is.

    `rules` are those about each of them.
    """
    shown = dict[str, Names]()
    for each in rules:
        found = _instead(type_, each, catalogue)
        if not found:
            return {}
        shown |= found
    return shown


def _instead(type_: str, rules: Sequence[Interaction], catalogue: Catalogue) -> dict[str, Names]:
    if len(rules) != 1:
        return {}
    changes = rules[0].changes
    overriding: list[Bar | Change] = [*rules[0].bars, *changes]
    overridden = {id_ for each in overriding for id_ in each.overrides}
    if not any(each.where == TRUE and each.id not in overridden for each in changes):
        return {}
    try:
        types = [catalogue.named(each.to) for each in changes]
    except UnknownType:
        return {}
    if {each.id for each in types} & {each.id for each in catalogue.family(type_)}:
        return {}
    return {each.name: catalogue.names(each.version) for each in types}


def check_asked(text: str, names: Names, shown: Mapping[str, Names]) -> None:
    """See that a filter fits a type, and one of those shown instead. Raises InvalidSyntax, InvalidFilter.

    One that fits none of them would find nothing, and nobody would say so.
    """
    try:
        check_filter(text, names)
        _check_any(text, shown)
    except InvalidFilter as error:
        if not shown:
            raise
        others = " or ".join(f"`{each}`" for each in shown)
        raise InvalidFilter(
            error.text,
            f"{error.problem}; rules show you events of this type as {others}, and a filter has to fit both:"
            " ask by what they leave as it is, and choose by the rest as you read",
        ) from None


def _check_any(text: str, shown: Mapping[str, Names]) -> None:
    fault: InvalidFilter | None = None
    for names in shown.values():
        try:
            bind_filter(parse_filter(text), names)
        except InvalidFilter as error:
            fault = fault or error
        else:
            return
    if fault is not None:
        raise fault

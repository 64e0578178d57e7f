"""A subscriber's own filter where rules alter events: it is held against what the subscriber gets to see.

Where rules show every event as another type, the filter may be about what only that type has.

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


def fits_instead(text: str, type_: str, rules: Sequence[Interaction], catalogue: Catalogue) -> bool:
    """Whether a filter that does not fit a type fits what rules show every event of it as."""
    return _fault(text, shown_instead(type_, [rules], catalogue).values()) is None


def check_asked(text: str, names: Names, shown: Mapping[str, Names]) -> None:
    """See that a filter fits what is seen: a type, or one of those shown instead. Raises InvalidSyntax, InvalidFilter.

    One that fits nothing of that would find nothing, and nobody would say so.
    """
    if not shown:
        check_filter(text, names)
    elif (fault := _fault(text, shown.values())) is not None:
        others = " or ".join(f"`{each}`" for each in shown)
        raise InvalidFilter(
            fault.text,
            f"{fault.problem}; rules show you events of this type as {others}, and filters are held against"
            " what you see: ask by the attributes of that",
        )


def _fault(text: str, shown: Iterable[Names]) -> InvalidFilter | None:
    """What is wrong with a filter for the first of some types, if it fits none of them. Raises InvalidSyntax."""
    fault: InvalidFilter | None = InvalidFilter(text, "fits nothing")
    for number, names in enumerate(shown):
        try:
            check_filter(text, names)
        except InvalidFilter as error:
            fault = fault if number else error
        else:
            return None
    return fault

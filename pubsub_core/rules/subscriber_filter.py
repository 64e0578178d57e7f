"""A subscriber's own filter where rules alter events: it is held against what the subscriber gets to see.

Otherwise a filter by what is left out, or blurred, would tell what it was. Invariant: whether an altered event is
delivered follows from the event as altered, and from attributes that no rule alters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from authz.predicate import EVENT, compile_predicate
from authz.predicate.filter import parse_filter
from pubsub_core.errors import InvalidFilter
from pubsub_core.events import Event
from pubsub_core.types import Catalogue, bind_filter

_Test: TypeAlias = Callable[[Mapping[str, object]], bool]


class SubscriberFilter:
    """What a subscription asked for, by the names of whatever type an event has become."""

    def __init__(self, filter_: str, type_: str, catalogue: Catalogue) -> None:
        """`type_` is the UUID of the type subscribed to."""
        self._filter = filter_
        self._type = type_
        self._catalogue = catalogue
        self._tests: dict[str, _Test | None] = {}

    def holds(self, event: Event) -> bool:
        """Whether the filter lets it through; one about what it does not have does not."""
        test = self._known(event)
        return test is not None and test(event.attributes)

    def sift(self, events: Sequence[Event | None]) -> list[Event | None]:
        """Those of events of one version that it lets through; None in place of the others."""
        test = next((self._known(each) for each in events if each is not None), None)
        if test is None:
            return [None] * len(events)
        return [each if each is not None and test(each.attributes) else None for each in events]

    def _known(self, event: Event) -> _Test | None:
        if event.version not in self._tests:
            self._tests[event.version] = self._test(event)
        return self._tests[event.version]

    def _test(self, event: Event) -> _Test | None:
        catalogue = self._catalogue
        own = any(event.type == each.id for each in catalogue.family(self._type))
        version = catalogue.newest(self._type).version if own else event.version
        try:
            bound = bind_filter(parse_filter(self._filter), catalogue.names(version))
        except InvalidFilter:
            return None
        return compile_predicate(bound, EVENT)

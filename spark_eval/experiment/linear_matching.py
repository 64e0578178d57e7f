"""How a content-based event service finds who is interested: every notification against every filter, one by one.

After Siena's data model: a notification is a set of named values, a filter a set of constraints on them, and a filter
matches if all its constraints do. NATS has no filters, so what they cost the paper's event service is measured by
this: it stands in the way of a question and of its answer, as that service did.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

Notification: TypeAlias = Mapping[str, str]


class Constraint(NamedTuple):
    """One attribute compared with a value."""

    name: str
    compare: Callable[[str, str], bool]
    value: str


Filter: TypeAlias = tuple[Constraint, ...]


def equal(**values: str) -> Filter:
    """The filter of those who are interested in exactly these values."""
    return tuple(Constraint(name, operator.eq, value) for name, value in values.items())


class EventService:
    """The filters that were subscribed, in order."""

    def __init__(self) -> None:
        self._filters: list[Filter] = []

    def __len__(self) -> int:
        return len(self._filters)

    def subscribe(self, filter_: Filter) -> None:
        self._filters.append(filter_)

    def unsubscribe(self, filter_: Filter) -> None:
        self._filters.remove(filter_)

    def match(self, notification: Notification) -> list[int]:
        """The numbers of the filters that match."""
        return [number for number, each in enumerate(self._filters) if _matches(each, notification)]


def _matches(filter_: Filter, notification: Notification) -> bool:
    return all(
        each.name in notification and each.compare(notification[each.name], each.value) for each in filter_
    )

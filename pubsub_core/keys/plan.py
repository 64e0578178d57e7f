"""Which attributes of an event type are sealed together: a partition into key groups, by who may read them.

Whole-event encryption is the partition with one part, attribute encryption the one with a part for each
attribute, and attributes that always have the same readers may share a part in between. What is in no part travels
in clear. A plan belongs to one version of a type and never changes: the order of attributes in a part says which
value is whose.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from pubsub_core.keys.errors import InvalidPlan
from pubsub_core.types import check_id

MAX_GROUPS = 256
MAX_SIZE = 65_536
MIN_PACE = 0.01
MAX_PACE = 10.0
"""Maximum pace in seconds: a proof that travels with events is not accepted much later."""

_SHARED = uuid.UUID("6a3f0c5e-9d0f-5b57-9f0b-8f0e3a6d1c42")
"""The name space of groups of several attributes."""


class Group(msgspec.Struct, frozen=True, array_like=True):
    """Attributes sealed under one key: whoever may read one of them may read all."""

    id: str
    """A UUID, as 32 hexadecimal digits; so are the attributes."""
    attributes: tuple[str, ...]

    def __post_init__(self) -> None:
        for each in (self.id, *self.attributes):
            check_id("groups", each)
        if not self.attributes or list(self.attributes) != sorted(set(self.attributes)):
            raise InvalidPlan("must list the attributes of a group once each, in order")


class Plan(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The key groups of one version of a type."""

    groups: tuple[Group, ...]
    sizes: tuple[int, ...] = ()
    """What is sealed is padded to the next of these sizes; beyond the last, to its multiples. None: no padding."""
    pace: float = 0.0
    """Seconds between two boxes to each broker that wants the type, empty if need be. 0: what comes goes at once."""

    def __post_init__(self) -> None:
        attributes = [attribute for group in self.groups for attribute in group.attributes]
        if len(attributes) != len(set(attributes)):
            raise InvalidPlan("must put each attribute into one group")
        if len(self.groups) > MAX_GROUPS or len({group.id for group in self.groups}) != len(self.groups):
            raise InvalidPlan(f"must have at most {MAX_GROUPS} groups, with an id for each")
        if list(self.sizes) != sorted(set(self.sizes)) or any(size < 1 for size in self.sizes):
            raise InvalidPlan("must list its size classes from the smallest to the largest")
        if self.sizes and self.sizes[-1] > MAX_SIZE:
            raise InvalidPlan(
                f"must have size classes of at most {MAX_SIZE} bytes, which is what an event may have"
            )
        if not 0 <= self.pace <= MAX_PACE or 0 < self.pace < MIN_PACE:
            raise InvalidPlan(f"must have a pace of {MIN_PACE:g} to {MAX_PACE:g} seconds, or 0 for none")

    @classmethod
    def whole(cls, type_id: str, attributes: Iterable[str], sizes: tuple[int, ...] = ()) -> Plan:
        """All attributes under one key. Another version with other attributes has another."""
        names = tuple(sorted(attributes))
        return cls((Group(_derived(type_id, *names), names),), sizes)

    @classmethod
    def each(cls, attributes: Iterable[str], sizes: tuple[int, ...] = ()) -> Plan:
        """Each attribute under its own key."""
        return cls(tuple(Group(attribute, (attribute,)) for attribute in sorted(attributes)), sizes)

    @classmethod
    def shared(cls, parts: Iterable[Iterable[str]], sizes: tuple[int, ...] = ()) -> Plan:
        """Each part under its own key; its id follows from the attributes in it."""
        return cls(tuple(sorted(map(_group, parts), key=lambda group: group.id)), sizes)

    def of(self, type_id: str) -> Plan:
        """The same plan with key groups that are this type's alone.

        A sub-type has attributes of its parent, and any owner can name those of another's type. So a group that was
        known by its attributes only could be given keys by two managers.
        """
        groups = tuple(Group(_derived(type_id, *group.attributes), group.attributes) for group in self.groups)
        return Plan(groups, self.sizes, self.pace)

    @cached_property
    def group_of(self) -> Mapping[str, Group]:
        """The group of each sealed attribute."""
        return {attribute: group for group in self.groups for attribute in group.attributes}

    @cached_property
    def by_id(self) -> Mapping[str, Group]:
        return {group.id: group for group in self.groups}

    @cached_property
    def simple(self) -> bool:
        """Whether each group has one attribute, and nothing is padded."""
        return not self.sizes and all(len(group.attributes) == 1 for group in self.groups)

    def clear(self, attributes: Iterable[str]) -> list[str]:
        """Those of the attributes that travel in clear."""
        return [attribute for attribute in attributes if attribute not in self.group_of]


def _group(part: Iterable[str]) -> Group:
    attributes = tuple(sorted(part))
    if len(attributes) == 1:
        return Group(attributes[0], attributes)
    return Group(_derived(*attributes), attributes)


def _derived(*ids: str) -> str:
    """The id of a group, from what is in it: the order of its values never means two things."""
    return uuid.uuid5(_SHARED, "".join(ids)).hex

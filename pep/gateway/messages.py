"""The messages of AuthZEN 1.0. Unknown fields are ignored, as the standard demands."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from authz.request import NOTHING, Attributes
from pep.gateway.settings import MAX_BYTES

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Semantic: TypeAlias = Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit"]

MAX_EVALUATIONS = 1_000
"""Maximum evaluations in one batch."""
MAX_WRITTEN_OUT = 2 * MAX_BYTES
"""Maximum bytes of the defaults of a batch, written out for each evaluation that they stand for."""


class Thing(msgspec.Struct, frozen=True):
    """A subject or a resource."""

    type: Name
    id: Name
    properties: Attributes = NOTHING


class ThingType(msgspec.Struct, frozen=True):
    """What a search looks for. An id is ignored."""

    type: Name


class Action(msgspec.Struct, frozen=True):
    name: Name
    properties: Attributes = NOTHING


class Evaluation(msgspec.Struct, frozen=True):
    """One question."""

    subject: Thing
    action: Action
    resource: Thing
    context: Attributes = NOTHING


_FIELDS = {each.name: each.type for each in msgspec.structs.fields(Evaluation)}


class Options(msgspec.Struct, frozen=True):
    evaluations_semantic: Semantic = "execute_all"


class Batch(msgspec.Struct, frozen=True):
    """Several questions. The fields beside `evaluations` are defaults, replaced whole by an item's own.

    A fault in one item is an error of that item alone, so they are checked one by one.
    """

    subject: Any = msgspec.UNSET
    action: Any = msgspec.UNSET
    resource: Any = msgspec.UNSET
    context: Any = msgspec.UNSET
    evaluations: Annotated[list[Any], msgspec.Meta(max_length=MAX_EVALUATIONS)] = []
    options: Options = Options()

    @property
    def defaults(self) -> dict[str, Any]:
        """What an item has that says nothing else."""
        given = {name: getattr(self, name) for name in Evaluation.__struct_fields__}
        return {name: value for name, value in given.items() if value is not msgspec.UNSET}

    @property
    def read_defaults(self) -> dict[str, Any]:
        """The same, read once for all items. What cannot be read is left for the items that need it to err."""
        read = self.defaults
        for name, value in read.items():
            with contextlib.suppress(msgspec.ValidationError):
                read[name] = msgspec.convert(value, _FIELDS[name])
        return read

    @property
    def written_out(self) -> int:
        """The bytes of the defaults, for each evaluation that they stand for; at most, where that is little."""
        sizes = {name: len(msgspec.json.encode(value)) for name, value in self.defaults.items()}
        most = sum(sizes.values()) * len(self.evaluations)
        if most <= MAX_WRITTEN_OUT:
            return most
        items = [item for item in self.evaluations if isinstance(item, dict)]
        return sum(size for item in items for name, size in sizes.items() if name not in item)


class PageRequest(msgspec.Struct, frozen=True):
    token: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None


class SubjectSearch(msgspec.Struct, frozen=True):
    subject: ThingType
    action: Action
    resource: Thing
    context: Attributes = NOTHING
    page: PageRequest = PageRequest()


class ResourceSearch(msgspec.Struct, frozen=True):
    subject: Thing
    action: Action
    resource: ThingType
    context: Attributes = NOTHING
    page: PageRequest = PageRequest()


class ActionSearch(msgspec.Struct, frozen=True):
    subject: Thing
    resource: Thing
    context: Attributes = NOTHING
    page: PageRequest = PageRequest()

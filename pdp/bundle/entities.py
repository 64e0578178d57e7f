"""Known subjects, objects and actions with their attributes: what can be searched, and what a file can provide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from authz import Entity
from authz.errors import InvalidSyntax
from authz.request import Attributes
from pdp.documents import Document


class _Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    subjects: dict[str, Attributes] | list[str] = {}
    objects: dict[str, Attributes] | list[str] = {}
    actions: dict[str, Attributes] | list[str] = {}


@dataclass(frozen=True, slots=True)
class Entities:
    """Entities by kind and id, in the order of their ids."""

    subjects: Mapping[str, Entity] = field(default_factory=dict)
    objects: Mapping[str, Entity] = field(default_factory=dict)
    actions: Mapping[str, Entity] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, source: str = "") -> Entities:
        """From YAML or JSON with `subjects`, `objects` and `actions`: names, or names with attributes."""
        found = Document.parse(text, source).read(_Text)
        return cls(_entities(found.subjects), _entities(found.objects), _entities(found.actions))

    @property
    def by_kind(self) -> Mapping[str, Mapping[str, Entity]]:
        """By the word that files use for each kind."""
        return {"subjects": self.subjects, "objects": self.objects, "actions": self.actions}

    @staticmethod
    def locate(text: str, source: str, kind: str, name: str, problem: str) -> InvalidSyntax:
        """A problem, said of an entity where it stands in its file."""
        document = Document.parse(text, source)
        listed = getattr(document.read(_Text), kind)
        return document.error((0, kind, listed.index(name) if isinstance(listed, list) else name), problem)

    @classmethod
    def merge(cls, several: Iterable[Entities]) -> Entities:
        """All of them; of two entities with one id, the later counts."""
        merged = cls()
        for each in several:
            merged = cls(
                _ordered({**merged.subjects, **each.subjects}),
                _ordered({**merged.objects, **each.objects}),
                _ordered({**merged.actions, **each.actions}),
            )
        return merged


def keys_of(entity: Entity) -> tuple[str, ...]:
    """The public keys that speak for a subject, as its attribute `key` gives them: one, or several."""
    keys = entity.attributes.get("key", ())
    return tuple(map(str, keys)) if isinstance(keys, (list, tuple)) else (str(keys),)


def _entities(found: dict[str, Attributes] | list[str]) -> dict[str, Entity]:
    named = found if isinstance(found, dict) else {name: {} for name in found}
    return _ordered({name: Entity(name, attributes) for name, attributes in named.items()})


def _ordered(entities: dict[str, Entity]) -> dict[str, Entity]:
    return dict(sorted(entities.items()))

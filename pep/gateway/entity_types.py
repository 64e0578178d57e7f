"""How entities of AuthZEN become subjects and objects: a template for each type, and the way back.

Invariant: two entities of different types never become one name, unless the settings say that one type is the other.
An id that another type's template would also produce is refused, so that nobody passes a service off as a user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from authz import InvalidRequest
from authz.request import MAX_BYTES
from pep.gateway.errors import UnknownType

NAMES_KEPT = 16_384
"""Maximum names remembered: most are asked about again."""
MAX_LENGTH = max(MAX_BYTES.values())
"""Maximum characters of a type and an id together: no longer name can be asked about."""
ANY = "*"
"""The type of a template for all types that have none of their own."""


class InvalidTemplate(ValueError):
    """A template that cannot be used: the text says why."""


class _Template(NamedTuple):
    prefix: str
    suffix: str

    @classmethod
    def parse(cls, text: str) -> _Template:
        prefix, placeholder, suffix = text.partition("{id}")
        if not placeholder or "{id}" in suffix:
            raise InvalidTemplate(f"`{text}` must contain {{id}} once, or name a type that does")
        if "{type}" in suffix or prefix.count("{type}") > 1:
            raise InvalidTemplate(f"`{text}` may contain {{type}} once, before {{id}}")
        return cls(prefix, suffix)

    def of(self, name: str) -> _Template:
        return _Template(self.prefix.replace("{type}", name), self.suffix)


class EntityTypes:
    """The types of subjects, or of resources."""

    def __init__(self, kind: str, templates: Mapping[str, str]) -> None:
        """Raises InvalidTemplate."""
        self._kind = kind
        self._same = {name: text for name, text in templates.items() if text in templates and text != name}
        """Types that are another: `identity: user`."""
        for name, text in self._same.items():
            if text in self._same or ANY in (name, text):
                raise InvalidTemplate(
                    f"`{name}` may be the same as a type that has a template, not as `{text}`"
                )
        self._templates = {
            name: _Template.parse(text) for name, text in templates.items() if name not in self._same
        }
        self._any = self._templates.pop(ANY, None)
        if self._any is not None and "{type}" not in self._any.prefix:
            raise InvalidTemplate(f"the template of `{ANY}` must contain {{type}}")
        for name, template in self._templates.items():
            if "{type}" in template.prefix:
                self._templates[name] = template.of(name)
        shapes = list(self._templates.values())
        if len(set(shapes)) < len(shapes):
            raise InvalidTemplate(f"two types of {kind} have one template")
        self._known: Callable[[str, str], str] = lru_cache(NAMES_KEPT)(self._name)

    def name(self, type_name: str, entity_id: str) -> str:
        """The name that policies use. Raises UnknownType, or InvalidRequest if it is too long or another type's."""
        if len(type_name) + len(entity_id) > MAX_LENGTH:
            raise InvalidRequest(self._kind, f"must have at most {MAX_LENGTH} characters in type and id")
        return self._known(type_name, entity_id)

    def prefix(self, type_name: str) -> str:
        """How the names of all entities of a type begin. Raises UnknownType."""
        return self._template(self.own(type_name)).prefix

    def own(self, type_name: str) -> str:
        """The type that has the template: itself, or the one that it is the same as."""
        return self._same.get(type_name, type_name)

    def _name(self, type_name: str, entity_id: str) -> str:
        type_name = self.own(type_name)
        template = self._template(type_name)
        name = f"{template.prefix}{entity_id}{template.suffix}"
        owner = self.find(name)
        if owner != (type_name, entity_id):
            raise InvalidRequest(
                self._kind, f"`{entity_id}` of type `{type_name}` cannot be told from another type's entity"
            )
        return name

    def find(self, name: str) -> tuple[str, str] | None:
        """Type and id of a name: by the template with the longest prefix; None if it has no type here."""
        best: tuple[int, str, str] | None = None
        for type_name, template in self._templates.items():
            entity_id = _inside(name, template)
            if entity_id and (best is None or len(template.prefix) > best[0]):
                best = len(template.prefix), type_name, entity_id
        if self._any is not None and (found := self._find_any(name)) is not None:
            length = len(self._any.of(found[0]).prefix)
            taken = found[0] in self._templates or found[0] in self._same
            if not taken and (best is None or length > best[0]):
                return found
        return None if best is None else best[1:]

    def _find_any(self, name: str) -> tuple[str, str] | None:
        assert self._any is not None
        before, _, between = self._any.prefix.partition("{type}")
        if not name.startswith(before):
            return None
        rest = name[len(before) :]
        type_name, separator, rest = rest.partition(between) if between else ("", "", "")
        entity_id = rest.removesuffix(self._any.suffix) if rest.endswith(self._any.suffix) else ""
        return (type_name, entity_id) if type_name and separator and entity_id else None

    def _template(self, type_name: str) -> _Template:
        template = self._templates.get(type_name)
        if template is None:
            if self._any is None or type_name == ANY:
                raise UnknownType(self._kind, type_name)
            template = self._any.of(type_name)
        return template


def _inside(name: str, template: _Template) -> str:
    prefix, suffix = template
    if not name.startswith(prefix) or not name.endswith(suffix):
        return ""
    return name[len(prefix) : len(name) - len(suffix)]

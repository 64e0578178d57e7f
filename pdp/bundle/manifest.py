"""The manifest of a bundle, `bundle.yaml`: its name, how its policies combine, and which attributes there are."""

from __future__ import annotations

import re
import typing

import msgspec

from authz.predicate import Path
from pdp.abac import Algorithm
from pdp.documents import Document

AttributeKind: typing.TypeAlias = typing.Literal["string", "number", "boolean", "list", "object", "any"]
Root: typing.TypeAlias = typing.Literal["subject", "object", "action", "context"]

_PROVIDED = re.compile(r"(subject|object|action|context)\.(.+)")


def attribute_path(text: str) -> Path | None:
    """The path of an attribute given as `subject.NAME`; None if it is no such text."""
    found = _PROVIDED.fullmatch(text)
    return Path(found[1], (found[2],)) if found else None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is so if `bundle.yaml` does not say otherwise: deny overrides, and any attribute may be sent."""

    name: str = ""
    algorithm: Algorithm = Algorithm.DENY_OVERRIDES
    provided: tuple[str, ...] = ()
    """Attributes that the PDPs look up for themselves, such as `subject.department`: what is sent does not count."""
    attributes: dict[Root, dict[str, AttributeKind]] | None = None
    """The attributes that policies may use, each with its type; None if there is no such list."""

    @classmethod
    def parse(cls, text: str, source: str = "") -> Manifest:
        """Raises InvalidSyntax."""
        document = Document.parse(text, source)
        manifest = document.read(cls)
        for number, each in enumerate(manifest.provided):
            if attribute_path(each) is None:
                problem = f"`{each}` is no attribute: write `subject.NAME`, `object.NAME` or `context.NAME`"
                raise document.error((0, "provided", number), problem)
        return manifest

    @property
    def provided_paths(self) -> frozenset[Path]:
        return frozenset(path for path in map(attribute_path, self.provided) if path is not None)

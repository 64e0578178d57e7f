"""The manifest of a bundle, `bundle.yaml`: its name, how its policies combine, and which attributes there are."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator

import msgspec

from authz.predicate import Path
from pdp.abac.document import Document
from pdp.abac.policy import Algorithm

AttributeKind: typing.TypeAlias = typing.Literal["string", "number", "boolean", "list", "object", "any"]
Root: typing.TypeAlias = typing.Literal["subject", "object", "action", "context"]

_PROVIDED = re.compile(r"(subject|object|action|context)\.(.+)")


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
            if not _PROVIDED.fullmatch(each):
                problem = f"`{each}` is no attribute: write `subject.NAME`, `object.NAME` or `context.NAME`"
                raise document.error((0, "provided", number), problem)
        return manifest

    @property
    def provided_paths(self) -> frozenset[Path]:
        return frozenset(self._provided())

    def _provided(self) -> Iterator[Path]:
        for each in self.provided:
            if found := _PROVIDED.fullmatch(each):
                yield Path(found[1], (found[2],))

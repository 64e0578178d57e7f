"""From a file of attribute providers to what it says.

    - file: people.yaml
      provides: [subject.department]
      lifetime: 60
    - file: documents.csv
      under: /documents/
      provides: [object.owner]
    - service: hr
      key: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4
      provides: [subject.clearance, subject.roles]
      lifetime: 10
      timeout: 0.2

`lifetime` is how many seconds an answer is relied on at most, `timeout` how many it is waited for. With
`under` it is asked only about entities whose names begin so; of several for one attribute the longest counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated

import msgspec

from authz import PublicKey
from authz.errors import InvalidKey
from authz.predicate import Path
from pdp.attributes.table_store import is_table
from pdp.bundle import attribute_path
from pdp.documents import Document

_Positive = Annotated[float, msgspec.Meta(gt=0)]


class _Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    provides: Annotated[list[str], msgspec.Meta(min_length=1)]
    file: str = ""
    service: str = ""
    key: str = ""
    domain: str = ""
    under: str = ""
    lifetime: _Positive = 60.0
    timeout: _Positive = 0.5


@dataclass(frozen=True, slots=True)
class FileText:
    """Attributes from a file."""

    path: FilePath


@dataclass(frozen=True, slots=True)
class ServiceText:
    """Attributes from a service on the bus."""

    name: str
    key: PublicKey
    domain: str = ""
    """The domain that it is in; none for that of whoever asks."""


@dataclass(frozen=True, slots=True)
class ProviderText:
    """A provider as it is described."""

    origin: FileText | ServiceText
    provides: frozenset[Path]
    lifetime: float
    timeout: float
    under: str = ""


def read_providers(text: str, source: str, folder: FilePath) -> tuple[ProviderText, ...]:
    """The providers that a text describes; its files lie relative to the folder. Raises InvalidSyntax."""
    document = Document.parse(text, source)
    providers: list[ProviderText] = []
    taken: set[tuple[Path, str]] = set()
    for number, each in enumerate(document.read(list[_Text])):
        paths = _paths(document, number, each, taken)
        origin = _origin(document, number, each, paths, folder)
        providers.append(ProviderText(origin, paths, each.lifetime, each.timeout, each.under))
    return tuple(providers)


def _paths(document: Document, number: int, text: _Text, taken: set[tuple[Path, str]]) -> frozenset[Path]:
    paths: set[Path] = set()
    for position, name in enumerate(text.provides):
        path = attribute_path(name)
        if path is None or (path, text.under) in taken:
            problem = "is provided twice" if path else "is no attribute: write `subject.NAME`, for instance"
            raise document.error((0, number, "provides", position), f"`{name}` {problem}")
        if text.under and path.root == "context":
            problem = "`under` names entities, and the context is none: give it a provider of its own"
            raise document.error((0, number, "under"), problem)
        taken.add((path, text.under))
        paths.add(path)
    return frozenset(paths)


def _origin(
    document: Document, number: int, text: _Text, provides: frozenset[Path], folder: FilePath
) -> FileText | ServiceText:
    if bool(text.file) == bool(text.service) or bool(text.service) != bool(text.key):
        raise document.error((0, number), "give a `file`, or a `service` with its `key`")
    if text.domain and text.file:
        raise document.error((0, number, "domain"), "a file is in no `domain`: only a `service` is")
    if text.file:
        roots = {each.root for each in provides}
        if is_table(folder / text.file) and (len(roots) > 1 or "context" in roots):
            problem = "a table holds entities of one kind: name each as a `file` with its own `provides`"
            raise document.error((0, number, "provides"), problem)
        return FileText(folder / text.file)
    try:
        return ServiceText(text.service, PublicKey.parse(text.key), text.domain)
    except InvalidKey as error:
        raise document.error((0, number, "key"), str(error)) from None

"""Definitions of event types in files: JSON that people can read; what is signed is the content, not the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from authfabric.files.capabilities import FileRefused, read_file, write_new
from authz import AuthFabricError, PublicKey
from authz.spki import InvalidCapability
from bus.identity import load_public_key
from pubsub_core.types import Catalogue, EventType, SignedType, below

T = TypeVar("T")


def read_draft(path: Path) -> EventType:
    """A definition that nobody has signed yet. Raises FileRefused."""
    return _read(path, EventType)


def read_type(path: Path) -> SignedType:
    """A signed definition, not yet verified. Raises FileRefused."""
    return _read(path, SignedType)


def read_signed_types(paths: Iterable[Path]) -> list[SignedType]:
    return [read_type(path) for path in paths]


def read_types(folder: Path, now: float) -> Catalogue:
    """The types defined in the files of a folder, verified; other files may be there too.

    Raises FileRefused or TypeRefused.
    """
    if not folder.is_dir():
        raise FileRefused(folder, "is no folder")
    found = (_signed(each) for each in sorted(folder.rglob("*")) if each.is_file())
    waiting = [each for each in found if each is not None]
    if not waiting:
        raise FileRefused(folder, "holds no definition of a type: `authfabric type sign` makes them")
    catalogue = Catalogue()
    while waiting:  # each after those it builds on, in whatever order the files are
        ready = [
            each for each in waiting if _builds_on(each.definition) <= {*_versions(catalogue)}
        ] or waiting
        for each in ready:
            catalogue.accept(each, now)
        waiting = [each for each in waiting if each not in ready]
    return catalogue


def _signed(path: Path) -> SignedType | None:
    """The signed definition in a file; None if it is another kind of file. One called NAME.type must be one."""
    try:
        return read_type(path)
    except FileRefused:
        if path.suffix == ".type":
            raise
        return None


def _builds_on(definition: EventType) -> set[str]:
    parent = {definition.parent.version} if definition.parent is not None else set()
    return parent | ({definition.previous} if definition.previous else set())


def _versions(catalogue: Catalogue) -> Iterator[str]:
    return (each.definition.version for each in catalogue)


def write_type(path: Path, value: EventType | SignedType) -> None:
    """Write a new file. Raises FileRefused if it is there."""
    write_new(path, msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def _read(path: Path, kind: type[T]) -> T:
    def parse(text: str, source: str) -> T:
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.MsgspecError, AuthFabricError) as error:
            wanted = "a signed type" if kind is SignedType else "a draft of a type"
            raise FileRefused(path, f"is not {wanted}: {error}") from None

    return read_file(path, parse)


NamesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--names",
        metavar="PREFIX=KEY|FILE",
        help="Who is trusted with names of types that begin so; `*` for all. The longest prefix counts. Repeatable.",
    ),
]


def read_names(texts: Sequence[str] | None) -> tuple[tuple[str, PublicKey], ...]:
    """Patterns of names and who is trusted with them. Raises InvalidCapability, InvalidKey."""
    return tuple(entry for text in texts or () for entry in _entries(text))


def _entries(text: str) -> Iterable[tuple[str, PublicKey]]:
    prefix, equals, key = text.partition("=")
    if not equals or not prefix:
        raise InvalidCapability("--names", f"`{text}` must be PREFIX=KEY, such as `uk.gov.pito=pito.pub`")
    return below(prefix, load_public_key(key))

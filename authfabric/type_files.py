"""Definitions of event types in files: JSON that people can read; what is signed is the content, not the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from authfabric.capability_files import FileRefused, read, write_new
from authz import AuthFabricError
from pubsub_core.catalogue import Catalogue
from pubsub_core.event_type import EventType
from pubsub_core.type_signature import SignedType

T = TypeVar("T")


def read_draft(path: Path) -> EventType:
    """A definition that nobody has signed yet. Raises FileRefused."""
    return _read(path, EventType)


def read_signed(path: Path) -> SignedType:
    """A signed definition, not yet verified. Raises FileRefused."""
    return _read(path, SignedType)


def read_all_signed(paths: Iterable[Path]) -> list[SignedType]:
    return [read_signed(path) for path in paths]


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
        return read_signed(path)
    except FileRefused:
        if path.suffix == ".type":
            raise
        return None


def _builds_on(definition: EventType) -> set[str]:
    parent = {definition.parent.version} if definition.parent is not None else set()
    return parent | ({definition.previous} if definition.previous else set())


def _versions(catalogue: Catalogue) -> Iterator[str]:
    return (each.definition.version for each in catalogue)


def write(path: Path, value: EventType | SignedType) -> None:
    """Write a new file. Raises FileRefused if it is there."""
    write_new(path, msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def _read(path: Path, kind: type[T]) -> T:
    def parse(text: str, source: str) -> T:
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.MsgspecError, AuthFabricError) as error:
            wanted = "a signed type" if kind is SignedType else "a draft of a type"
            raise FileRefused(path, f"is not {wanted}: {error}") from None

    return read(path, parse)

"""Bundles on disk: read from folders and files, and the last verified one kept for bad times."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from authz import PublicKey
from authz.release import Released, ReleaseRefused
from bus.feeds import Entry
from pdp.bundle.bundle import Bundle, BundleRefused, File, FileKind
from pdp.bundle.entities import Entities


def read_folder(folder: Path) -> Bundle:
    """The policy files in a folder and below it. Raises BundleRefused, also if there are none."""
    bundle = Bundle.of(_files(folder))
    if not bundle.files:
        raise BundleRefused(
            f"`{folder}` has no policies: they are in files that end in .yaml, .json, .oasis or .rules"
        )
    return bundle


def read_cases(path: Path) -> list[File]:
    """The files of test cases: the one given, or those in a folder of policies."""
    if path.is_file():
        return [_read(path, path.name)]
    return [each for each in _files(path) if each.kind is FileKind.CASES]


def read_entities(paths: Iterable[Path]) -> Entities:
    """Known entities from files, and from all YAML and JSON files in folders. Raises BundleRefused or InvalidSyntax."""
    files: list[File] = []
    for path in paths:
        files += _files(path) if path.is_dir() else [_read(path, str(path))]
    return Entities.merge(Entities.parse(each.text, each.path) for each in files)


def read_bundle(path: Path, trusted: Collection[PublicKey]) -> Bundle:
    """A folder as a bundle, or the bundle in a file that `policy build` has made and a trusted key signed."""
    if path.is_dir():
        return read_folder(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BundleRefused(f"`{path}` cannot be read: {error.strerror}") from None
    return Bundle.open(data, trusted).value


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in place at once: whoever opens the path sees all of it, or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    revision: int
    release: bytes
    packed: bytes


class BundleCache:
    """The last verified release of a domain with its bundle, in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, revision: int, release: bytes, packed: bytes) -> None:
        write_whole(self.path, msgspec.msgpack.encode(_Kept(revision, release, packed)))

    def load(self, domain: str, trusted: Collection[PublicKey]) -> tuple[Entry, Released, bytes] | None:
        """A release and its packed bundle, verified anew; None if there is none. Raises ReleaseRefused."""
        try:
            kept = msgspec.msgpack.decode(self.path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise ReleaseRefused(0, f"`{self.path}` cannot be read: {error}") from None
        released = Released.open(kept.release, domain, trusted)
        return Entry(kept.revision, kept.release, released), released, kept.packed


def _files(folder: Path) -> Iterator[File]:
    if not folder.is_dir():
        raise BundleRefused(f"`{folder}` is no folder")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if FileKind.of(name) is not None and path.is_file():
            yield _read(path, name)


def _read(path: Path, name: str) -> File:
    try:
        return File(name, path.read_bytes().decode())
    except UnicodeDecodeError:
        raise BundleRefused(f"`{path}` is no text in UTF-8") from None
    except OSError as error:
        raise BundleRefused(f"`{path}` cannot be read: {error.strerror}") from None

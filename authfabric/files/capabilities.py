"""Files that commands read, write once or replace whole: capabilities, and what is signed in base64."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from authz import AuthFabricError
from authz.spki import Certificate, Owners, Revocations
from authz.spki.text import parse_chain, parse_notice, parse_owners
from bus.identity import read_trusted

_T = TypeVar("_T")


class FileRefused(AuthFabricError):
    """A file that cannot be read or written: `problem` says why."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"`{path}` {problem}")
        self.path = path
        self.problem = problem


def read_file(path: Path, parse: Callable[[str, str], _T]) -> _T:
    """What a file says; `-` stands for standard input."""
    if str(path) == "-":
        return parse(sys.stdin.read(), "standard input")
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise FileRefused(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise FileRefused(path, "is not text") from None


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise FileRefused(path, "already exists") from None
    except OSError as error:
        raise FileRefused(path, f"cannot be written: {error.strerror}") from error


def replace_file(path: Path, text: str) -> None:
    """Write a file in place of the one that is there, so that a reader sees one or the other whole."""
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise FileRefused(path, f"cannot be written: {error.strerror}") from error


def read_chains(paths: Sequence[Path]) -> tuple[Certificate, ...]:
    """All certificates of several files."""
    return tuple(certificate for path in paths for certificate in read_file(path, parse_chain))


def read_owners(path: Path) -> Owners:
    """Who owns what. Raises FileRefused, or KeyFileRefused for a file that everybody may write to."""
    if path.is_file():
        return Owners(parse_owners(read_trusted(path), str(path)))
    return Owners(read_file(path, parse_owners))


def read_revocations(paths: Sequence[Path]) -> Revocations:
    """All that several lists and events revoke. Raises InvalidSignature for one that is forged."""
    return Revocations.of(*(read_file(path, parse_notice) for path in paths))


def read_encoded(path: Path) -> bytes:
    """What `write_encoded` wrote. Raises FileRefused."""

    def parse(text: str, source: str) -> bytes:
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except binascii.Error:
            raise FileRefused(path, "must be base64 text, as `authfabric broker` writes it") from None

    return read_file(path, parse)


def write_encoded(path: Path, data: bytes) -> None:
    write_new(path, base64.encodebytes(data).decode())

"""The secret that all brokers of a network share, in a file for their eyes only."""

from __future__ import annotations

import enum
import os
import secrets
import stat
from pathlib import Path
from typing import Annotated

import typer

from authfabric.files.capabilities import FileRefused, read_file
from bus.identity import write_private

KEY_BYTES = 32

NetworkKey = Annotated[
    Path | None,
    typer.Option(
        "--network-key",
        help="The secret of the network's brokers, under which definitions are kept and sent.",
    ),
]


class Step(enum.StrEnum):
    """What is done to a network's secret to have another, one after the other, at every broker each time."""

    ADD = "add"
    """Another stands behind it, and opens."""
    USE = "use"
    """The other locks."""
    DROP = "drop"
    """The one of before opens nothing more."""


def make_network_key(path: Path) -> None:
    """Write a new secret that only its owner can read. Raises FileRefused if the file is there."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
    except FileExistsError:
        raise FileRefused(path, "already exists: a secret is never overwritten") from None
    except OSError as error:
        raise FileRefused(path, f"cannot be written: {error.strerror}") from error


def read_network_key(path: Path | None) -> bytes:
    """The secrets in a file, one after the other, the first of which locks; nothing without a file.

    Raises FileRefused, also if others could read it.
    """
    if path is None:
        return b""
    secret = read_file(path, lambda text, _: _parse(path, text))
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FileRefused(path, "can be read by others: `chmod 600` it")
    return secret


def change_network_key(path: Path, step: Step) -> None:
    """Take the next step towards another secret. Raises FileRefused for any other step, naming the next."""
    known = read_network_key(path)
    first, second = known[:KEY_BYTES], known[KEY_BYTES:]
    following = Step.ADD if not second else Step.DROP if _FORMER in path.read_text() else Step.USE
    if step is not following:
        raise FileRefused(path, f"{_STANDING[following]}: the next step is `--step {following}`")
    match step:
        case Step.ADD:
            text = f"{first.hex()}\n{secrets.token_hex(KEY_BYTES)} {_NEXT}\n"
        case Step.USE:
            text = f"{second.hex()}\n{first.hex()} {_FORMER}\n"
        case Step.DROP:
            text = f"{first.hex()}\n"
    write_private(path, text.encode(), replace=True)


_NEXT, _FORMER = "next", "former"
"""What a file says of its second secret."""
_STANDING = {
    Step.ADD: "has one secret",
    Step.USE: "has the next secret, which is not in use",
    Step.DROP: "has its next secret in use",
}


def _parse(path: Path, text: str) -> bytes:
    lines = [line.split() for line in text.splitlines() if line.strip()]
    marks = [line[1:] for line in lines]
    try:
        found = [bytes.fromhex(line[0]) for line in lines]
    except ValueError:
        found = []
    if any(len(each) != KEY_BYTES for each in found) or marks not in ([[]], [[], [_NEXT]], [[], [_FORMER]]):
        raise FileRefused(path, "must hold 64 hexadecimal digits: make it with `keys network`")
    return b"".join(found)

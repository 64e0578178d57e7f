"""The secret that all brokers of a network share, in a file for their eyes only."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Annotated

import typer

from authfabric.files.capabilities import FileRefused, read_file

KEY_BYTES = 32

NetworkKey = Annotated[
    Path | None,
    typer.Option(
        "--network-key",
        help="The secret of the network's brokers, under which definitions are kept and sent.",
    ),
]


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
    """The secret in a file; nothing without one. Raises FileRefused, also if others could read it."""
    if path is None:
        return b""
    secret = read_file(path, lambda text, _: _parse(path, text))
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FileRefused(path, "can be read by others: `chmod 600` it")
    return secret


def _parse(path: Path, text: str) -> bytes:
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise FileRefused(path, "must hold 64 hexadecimal digits: make it with `keys network`")
    return secret

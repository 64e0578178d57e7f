"""Whose releases count: public keys, given as such, as text, or in files with one on each line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from authz import PublicKey

TRUST_VARIABLE = "AUTHFABRIC_TRUST"

Keys: TypeAlias = Iterable[PublicKey | str | Path]


def read_keys(given: Keys) -> frozenset[PublicKey]:
    """The keys that texts and files name. Raises InvalidKey."""
    return frozenset(key for each in given for key in _read(each))


def configured_keys() -> frozenset[PublicKey]:
    """Those that the environment names, separated by commas; none if it does not. Raises InvalidKey."""
    return read_keys(text for text in os.environ.get(TRUST_VARIABLE, "").split(",") if text)


def _read(given: PublicKey | str | Path) -> Iterable[PublicKey]:
    if isinstance(given, PublicKey):
        return [given]
    path = Path(given)
    if not path.is_file():
        return [PublicKey.parse(str(given))]
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [PublicKey.parse(line) for line in lines if line]

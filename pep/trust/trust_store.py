"""Whose word counts: public keys, given as such, as text, or in files with one on each line."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from authz import PublicKey
from authz.errors import InvalidKey
from bus.identity import Credentials, find_running, read_trusted
from bus.wire import DEFAULT_URL
from pep.errors import NobodyTrusted

TRUST_VARIABLE = "AUTHFABRIC_TRUST"


class Unverified(enum.Enum):
    """Says that it is meant to believe whoever answers."""

    UNVERIFIED = "unverified"


UNVERIFIED = Unverified.UNVERIFIED
"""Given as `trust`: whoever answers is believed, and nothing is recycled. For a bus on which nobody else speaks."""

Keys: TypeAlias = Iterable[PublicKey | str | Path]
Trust: TypeAlias = Keys | Unverified | None


def read_keys(given: Keys) -> frozenset[PublicKey]:
    """The keys that texts and files name. Raises InvalidKey, also for a file without any, or KeyFileRefused."""
    return frozenset(key for each in given for key in _read(each))


def configured_keys() -> frozenset[PublicKey]:
    """Those that the environment names, separated by commas; none if it is not set. Raises InvalidKey."""
    text = os.environ.get(TRUST_VARIABLE, "")
    keys = read_keys(each.strip() for each in text.split(",") if each.strip())
    if text and not keys:
        raise InvalidKey(f"{TRUST_VARIABLE} names no key: set it to keys or files of keys, or not at all")
    return keys


def trusted_roots(given: Trust, credentials: Credentials | None, address: str) -> frozenset[PublicKey]:
    """Whose PDPs are believed at a server: as given, as the environment, the credentials or the running `up` say.

    None at all if that is meant. Raises InvalidKey, or NobodyTrusted if nothing says whom to believe.
    """
    if given is UNVERIFIED:
        return frozenset()
    keys = configured_keys() if given is None else read_keys(given)
    if given is None and not keys and credentials is not None:
        keys = credentials.trust
    running = find_running()
    if given is None and not keys and running is not None and running.url == address and running.root:
        keys = read_keys([running.root])
    if not keys:
        raise NobodyTrusted(address, nothing_here=running is None and address == DEFAULT_URL)
    return keys


def _read(given: PublicKey | str | Path) -> Iterable[PublicKey]:
    if isinstance(given, PublicKey):
        return [given]
    path = Path(given)
    if not path.is_file():
        return [PublicKey.parse(str(given))]
    lines = (line.partition("#")[0].strip() for line in read_trusted(path).splitlines())
    keys = [PublicKey.parse(line) for line in lines if line]
    if not keys:
        raise InvalidKey(f"`{path}` names no key: write at least one, each on a line of its own")
    return keys

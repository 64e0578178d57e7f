"""The keys of this user: one to sign policies with, made at first use, and those of others that are trusted."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from authfabric.files.settings import find_trust, find_url
from authfabric.terminal import passphrase
from authz import Identity, PublicKey
from authz.errors import InvalidKey
from bus.identity import FollowedKeys, create_key, data_folder, load_key
from pep import NobodyTrusted
from pep.trust import TRUST_VARIABLE

Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="KEY|FILE",
        help="A public key whose word counts, about releases and about who may decide, or a file with one on each"
        " line. Repeat it for several. Default: $AUTHFABRIC_TRUST, or the credentials' root, or your own key.",
    ),
]


def policy_key_file() -> Path:
    return data_folder() / "policy-key.pem"


def roles_key_file() -> Path:
    return data_folder() / "roles-key.pem"


def own_identity(path: Path | None = None) -> Identity:
    """The key to sign policies with: the one in the file given, or this user's own, made if there is none.

    Raises KeyFileRefused or InvalidKey.
    """
    return load_or_make(path, policy_key_file())


def load_or_make(path: Path | None, usual: Path) -> Identity:
    """The key in the file given, or else in the usual one, made if there is none. Raises as `own_identity` does."""
    if path is None:
        path = usual
        _make(path)
    return load_key(path, passphrase.known)


def trusted_keys(given: Iterable[str] | None, url: str | None = None) -> frozenset[PublicKey]:
    """Whose word counts, by one rule for all commands: what is given, then the environment, then the credentials' root.

    Where none of these names anybody, and no `authfabric up` runs, it is this user's own key. Raises InvalidKey, or
    what reading credentials raises.
    """
    try:
        return find_trust(given, url or find_url())
    except NobodyTrusted:
        pass
    if not policy_key_file().exists():
        raise InvalidKey("nobody is trusted yet: name whose releases count with `--trust KEY`")
    return frozenset({own_identity().public})


def followed_keys(given: list[str] | None) -> Collection[PublicKey]:
    """The same for whoever serves: keys that stand in files are read again and again. Raises as `trusted_keys` does."""
    if not given and TRUST_VARIABLE not in os.environ:
        return trusted_keys(given)
    return FollowedKeys(partial(trusted_keys, given))


def _make(path: Path) -> None:
    """Write a new key, readable by nobody else, unless one is there; of two who try at once, one succeeds."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mine = path.with_name(f".{path.name}.{os.getpid()}")
    create_key(mine, Identity.generate(), None)
    try:
        os.link(mine, path)
    except FileExistsError:
        pass
    finally:
        mine.unlink()

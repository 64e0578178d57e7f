"""The rights of replicas: read from files, or given by whoever runs a fabric of their own."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Annotated

import typer

from authfabric.files.capabilities import read_file, replace_file
from authfabric.files.keys import load_or_make, own_identity, policy_key_file
from authfabric.terminal import passphrase
from authz import AuthFabricError, Identity
from authz.errors import InvalidKey
from authz.spki import (
    Capability,
    Certificate,
    Right,
    Validity,
    decode_chain,
    parse_authority,
    parse_chain,
    unparse_chain,
)
from bus.identity import VARIABLE, Credentials, find_credentials, load_key, read_credentials
from pdp.replica import AnswerAuthority

LOOK_SECONDS = 5.0
"""How often the file of a right is looked at."""
LASTS_SECONDS = 366 * 24 * 3600
"""How long a right lasts that is given at each start anew."""

_log = logging.getLogger("authfabric.pdp")

Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        help="The private key to answer by, so that PEPs can tell who answers. Default: a new one, empowered by your"
        " own key if you have one.",
    ),
]
Chain = Annotated[
    Path | None,
    typer.Option(
        "--chain",
        help="The capabilities that let this key decide. Default: the file of the key, ending in .cap.",
    ),
]


@dataclass(frozen=True, slots=True)
class DecisionRight:
    """A right, and the file whose capabilities say so, if there is one."""

    authority: AnswerAuthority
    chain: Path | None = None
    written: tuple[int, int] | None = None
    """How the file was when it was read."""
    read_chain: Callable[[Path, Identity], tuple[Certificate, ...]] = lambda path, holder: _read_chain(
        path, holder
    )
    """Reads the capabilities in the file anew."""

    async def keep_renewed(self) -> None:
        """Show what the file says whenever it is replaced: so a right is renewed while its holder answers."""
        seen = self.written
        while self.chain is not None:
            await asyncio.sleep(LOOK_SECONDS)
            if (written := _written(self.chain)) == seen:
                continue
            try:
                self.authority.renew(self.read_chain(self.chain, self.authority.identity), time())
            except AuthFabricError as error:
                _log.warning("the right to decide is not renewed: %s", error)
            seen = written


def find_authority(key: Path | None, chain: Path | None) -> DecisionRight | None:
    """The right that files or credentials give, or this user's own key for the occasion; None if there is none.

    Raises KeyFileRefused, InvalidKey, FileRefused, InvalidSyntax, MalformedCertificate or CredentialsRefused.
    """
    if key is None:
        if chain is not None:
            raise InvalidKey("`--chain` needs `--key`: the key that the capabilities were issued to")
        if (held := _by_credentials()) is not None:
            return held
        if not policy_key_file().exists():
            return None
        holder = Identity.generate()
        return DecisionRight(AnswerAuthority(holder, [empower(holder, own_identity())], time()))
    file, identity = chain or key.with_suffix(".cap"), load_key(key, passphrase.known)
    written = _written(file)
    return DecisionRight(AnswerAuthority(identity, _read_chain(file, identity), time()), file, written)


def _by_credentials() -> DecisionRight | None:
    """The right that the credentials give which the environment names, if they give one."""
    if VARIABLE not in os.environ or (found := find_credentials()) is None:
        return None
    given, file = found.credentials, found.credentials.file
    written = None if file is None else _written(file)
    chain = _whole_chain(given)
    if not chain or not any(each.allows(Right.DECIDE) for each in chain[-1].unverified().authority.grants):
        return None
    return DecisionRight(
        AnswerAuthority(given.identity, chain, time()),
        file,
        written,
        _reread,
    )


def _reread(path: Path, holder: Identity) -> tuple[Certificate, ...]:
    """The capabilities in credentials that took the place of others. Raises InvalidKey if they are of another key."""
    found = read_credentials(path).credentials
    if found.identity.public != holder.public:
        raise InvalidKey(
            f"the credentials in `{path}` are now of another key, `{found.identity.public}`:"
            f" what `{holder.public}` was given goes on to count; restart this process to go over"
        )
    return _whole_chain(found)


def _whole_chain(given: Credentials) -> tuple[Certificate, ...]:
    """The capabilities in credentials, after the links by which their issuer holds what it grants."""
    chains = (given.holding, given.chain)
    return tuple(link for each in chains if each for link in decode_chain(each))


def write_authority(folder: Path, name: str, root: Identity) -> list[str]:
    """Let a replica decide everything, by a key that it keeps; returns the words that tell it so."""
    key = folder / f"{name}.key"
    chain = key.with_suffix(".cap")
    replace_file(chain, unparse_chain((empower(load_or_make(None, key), root),)))
    return ["--key", str(key), "--chain", str(chain)]


def empower(holder: Identity, root: Identity) -> Certificate:
    """The right to decide everything, by the word of a root."""
    now = int(time())
    everything = parse_authority("object: *\naction: decide")
    validity = Validity(now - 60, now + LASTS_SECONDS)  # clocks differ a little
    return Capability(root.public, holder.public, False, everything, validity).sign(root)


def _read_chain(path: Path, holder: Identity) -> tuple[Certificate, ...]:
    certificates = read_file(path, parse_chain)
    subject = certificates[-1].unverified().subject
    if subject != holder.public:
        raise InvalidKey(f"the capabilities in `{path}` were issued to `{subject}`, not to `{holder.public}`")
    return certificates


def _written(path: Path) -> tuple[int, int] | None:
    """What tells one file from another that has taken its place; None if there is none."""
    try:
        found = path.stat()
        return found.st_mtime_ns, found.st_ino
    except OSError:
        return None

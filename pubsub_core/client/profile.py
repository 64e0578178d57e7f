"""Client profiles: all that a client needs to connect, in one file for its own eyes only.

A profile is named by a path, or by a word that stands for a file in the user's own folder of profiles.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from authz import AuthFabricError, Identity
from bus.identity import (
    Credentials,
    CredentialsFile,
    configured_passphrase,
    data_folder,
    parse_credentials,
    read_private,
    unlock,
    write_private,
)
from bus.wire import DEFAULT_DOMAIN
from pubsub_core.errors import EventError

PROFILE_VARIABLE = "AUTHFABRIC_PROFILE"
SUFFIX = ".json"


class ProfileRefused(EventError):
    """A profile that is not named, not there or cannot be used: `problem` says why, and what to do."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the profile `{name}` {problem}" if name else f"no profile is named: {problem}")
        self.name = name
        self.problem = problem


class ProfileFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands in the file, as JSON."""

    name: str
    """By which PDPs know the client."""
    brokers: tuple[str, ...]
    """The brokers that it may use, the first before the others."""
    key: str
    """PKCS#8 in PEM, as key files have it."""
    credential: str
    """In base64, as `authfabric broker credential` writes it."""
    domain: str = DEFAULT_DOMAIN
    trust: tuple[str, ...] = ()
    """The owners of types whose word about brokers counts."""
    chains: tuple[str, ...] = ()
    """Capabilities of type owners, in base64."""
    types: tuple[str, ...] = ()
    """The types that it subscribes to, for commands that ask for all of them."""
    publishes: tuple[str, ...] = ()
    """The types that it publishes."""
    application: str = ""
    """The application that it was made for."""
    access: CredentialsFile | None = None
    """What lets it connect to the server. Without it, credentials are found as an Enforcer finds them."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A client, ready to connect."""

    name: str
    brokers: tuple[str, ...]
    identity: Identity
    credential: bytes
    domain: str
    trust: tuple[str, ...]
    chains: tuple[bytes, ...]
    types: tuple[str, ...]
    access: Credentials | None
    url: str | None
    publishes: tuple[str, ...] = ()


def profile_folder() -> Path:
    """Where profiles stand that are called by their names."""
    return data_folder() / "profiles"


def profile_path(name: str) -> Path:
    """The file that a name or a path stands for."""
    if os.sep in name or name.endswith(SUFFIX):
        return Path(name)
    return profile_folder() / f"{name}{SUFFIX}"


def known_profiles() -> list[str]:
    """The names of all profiles in this user's folder."""
    return sorted(each.stem for each in profile_folder().glob(f"*{SUFFIX}"))


def configured_profile() -> str | None:
    """The profile that the environment names; or the only one that there is."""
    named = os.environ.get(PROFILE_VARIABLE)
    known = known_profiles()
    return named or (known[0] if len(known) == 1 else None)


def write_profile(path: Path, file: ProfileFile) -> None:
    """Write a file that nobody else can read, in place of one that is there. Raises KeyFileRefused."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n", replace=True)


def read_profile_file(path: Path) -> ProfileFile:
    """What a file says. Raises ProfileRefused."""
    try:
        return msgspec.json.decode(read_private(path), type=ProfileFile)
    except msgspec.DecodeError as error:
        raise ProfileRefused(str(path), f"cannot be read: {error}") from None
    except AuthFabricError as error:
        raise ProfileRefused(str(path), str(error).partition("` ")[2] or str(error)) from None


def read_profile(name: str | Path | None = None) -> Profile:
    """The profile of this name or path, or the one that the environment names. Raises ProfileRefused."""
    wanted = str(name) if name is not None else configured_profile()
    if wanted is None:
        problem = (
            f"say which by `--as NAME`, `profile=` or {PROFILE_VARIABLE}; {_known()}"
            if known_profiles()
            else "there is none; `authfabric event apply` makes them"
        )
        raise ProfileRefused("", problem)
    path = profile_path(wanted)
    if not path.exists():
        raise ProfileRefused(wanted, f"is not there (`{path}`): {_known()}")
    file = read_profile_file(path)
    try:
        identity = unlock(path, file.key.encode(), _passphrase)
        credential = _decoded(wanted, "credential", file.credential)
        chains = tuple(_decoded(wanted, "chains", each) for each in file.chains)
        access = parse_credentials(path, file.access) if file.access is not None else None
    except ProfileRefused:
        raise
    except AuthFabricError as error:
        raise ProfileRefused(wanted, f"cannot be used: {error}") from None
    if not file.brokers:
        raise ProfileRefused(wanted, "names no broker: `brokers` must list at least one")
    return Profile(
        file.name,
        file.brokers,
        identity,
        credential,
        file.domain,
        file.trust,
        chains,
        file.types,
        access.credentials if access is not None else None,
        access.url if access is not None else None,
        file.publishes,
    )


def _known() -> str:
    names = ", ".join(f"`{each}`" for each in known_profiles())
    return f"the profiles here are {names}" if names else "`authfabric event apply` makes profiles"


def _decoded(name: str, field: str, text: str) -> bytes:
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error:
        raise ProfileRefused(name, f"cannot be used: `{field}` must be base64 text") from None
    if not data:
        problem = f"has an empty `{field}`: have its domain issue one, by `authfabric broker credential`"
        raise ProfileRefused(name, problem)
    return data


def _passphrase() -> str:
    found = configured_passphrase()
    if found is None:
        raise EventError("its key is encrypted: set AUTHFABRIC_PASSPHRASE")
    return found

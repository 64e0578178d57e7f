"""Where things are: the server to talk to, and the files that `authfabric` keeps, by the XDG rules."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from authz import PublicKey
from bus.address import DEFAULT_URL, configured_url
from bus.credentials_store import VARIABLE, find_credentials
from pep import NobodyTrusted
from pep.trust_store import configured_keys, read_keys

DEFAULT_POLICIES = Path(__file__).parent / "defaults" / "policies"
CONNECT_SECONDS = 2.0
"""How long a command that somebody waits for tries to reach a server."""


class Running(msgspec.Struct, frozen=True):
    """What `authfabric up` leaves for the other commands to find."""

    url: str
    pid: int
    root: str = ""
    """The public key whose word counts there."""


def state_folder() -> Path:
    """Where state goes that outlives a command."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "authfabric"


def data_folder() -> Path:
    """Where keys are kept."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "authfabric"


def cache_folder() -> Path:
    """Where copies of what is stored elsewhere are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "authfabric"


def running_file() -> Path:
    return state_folder() / "up.json"


def find_running() -> Running | None:
    """The fabric that `authfabric up` runs on this machine, if it still does."""
    try:
        running = msgspec.json.decode(running_file().read_bytes(), type=Running)
        os.kill(running.pid, 0)
    except (OSError, msgspec.DecodeError):
        return None
    return running


def note_running(url: str, root: PublicKey) -> None:
    """Tell the other commands where the fabric is, and whom to believe there."""
    state_folder().mkdir(parents=True, exist_ok=True)
    running_file().write_bytes(msgspec.json.encode(Running(url, os.getpid(), str(root))))


def forget_running() -> None:
    """Take the note away again, unless somebody else has written another since."""
    running = find_running()
    if running is not None and running.pid == os.getpid():
        running_file().unlink(missing_ok=True)


def find_url(given: str | None = None) -> str:
    """The server to use: the one given, the environment's, the credentials', the running `up`'s, or the usual."""
    named = given or configured_url()
    if named is None and VARIABLE in os.environ and (found := find_credentials()) is not None:
        named = found.url
    running = find_running()
    return named or (running.url if running else DEFAULT_URL)


def find_trust(given: Iterable[str] | None, url: str) -> frozenset[PublicKey]:
    """Whose word counts at a server: the keys given, the environment's, the running `up`'s, or the credentials'.

    Raises InvalidKey, CredentialsRefused, or NobodyTrusted if there are none.
    """
    if given:
        return read_keys(given)
    running = find_running()
    if not (keys := configured_keys()) and running is not None and running.url == url and running.root:
        keys = read_keys([running.root])
    if not keys and (found := find_credentials(url)) is not None:
        keys = found.credentials.trust
    if not keys:
        raise NobodyTrusted(url)
    return keys

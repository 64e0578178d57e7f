"""Where things are: the server to talk to, and the files that `authfabric` keeps, by the XDG rules."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from authz import AuthFabricError, PublicKey
from bus.identity import (
    VARIABLE,
    Running,
    find_credentials,
    find_running,
    others_may_write,
    running_file,
    state_folder,
    write_private,
)
from bus.wire import DEFAULT_URL, configured_url
from pep.trust import read_keys, trusted_roots

DEFAULT_POLICIES = Path(__file__).parents[1] / "defaults" / "policies"
STARTERS = Path(__file__).parents[1] / "defaults" / "starters"
"""What `authfabric init` writes, by framework."""
CONNECT_SECONDS = 2.0
"""How long a command that somebody waits for tries to reach a server."""


class FolderRefused(AuthFabricError):
    """A folder that cannot be made, or closed to others: `path` and why."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"`{path}` must be a folder that only you can write to: {problem}")
        self.path = path


def own_state_folder() -> Path:
    """Where state goes that outlives a command: made if it is not there, and closed to others.

    What stands there says whom to believe. Raises FolderRefused.
    """
    folder = state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if others_may_write(folder.stat()):
            folder.chmod(0o700)
    except OSError as error:
        raise FolderRefused(folder, error.strerror or str(error)) from None
    return folder


def fabric_folder(insecure: bool) -> Path:
    """What `authfabric up` keeps of one fabric: its store, keys and releases. Raises FolderRefused.

    Each store has a folder of its own: replicas refuse a store that does not go on from what they kept.
    """
    own, url = own_state_folder(), configured_url()
    if url is not None:
        return own / f"external-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
    return own / ("insecure" if insecure else "secured")


def cache_folder() -> Path:
    """Where copies of what is stored elsewhere are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "authfabric"


def note_running(url: str, root: PublicKey, events: bool = False) -> None:
    """Tell the other commands where the fabric is, and whom to believe there. Raises FolderRefused."""
    own_state_folder()
    note = Running(url, os.getpid(), str(root), events)
    write_private(running_file(), msgspec.json.encode(note), replace=True)


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
    """Whose word counts at a server: the keys given, the environment's, the credentials', or the running `up`'s.

    Raises InvalidKey, CredentialsRefused, or NobodyTrusted if there are none.
    """
    if given:
        return read_keys(given)
    found = find_credentials(url)
    return trusted_roots(None, found.credentials if found is not None else None, url)

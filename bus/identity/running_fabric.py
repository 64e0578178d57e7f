"""The fabric that `authfabric up` runs on this machine: the note by which commands and services find it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec


class Running(msgspec.Struct, frozen=True):
    """What `authfabric up` leaves for commands and services to find."""

    url: str
    pid: int
    root: str = ""
    """The public key whose word counts there."""
    events: bool = False
    """Whether it runs the brokers and key managers of event applications too."""


def state_folder() -> Path:
    """Where state goes that outlives a command."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "authfabric"


def data_folder() -> Path:
    """Where keys are kept."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "authfabric"


def running_file() -> Path:
    return state_folder() / "up.json"


def find_running() -> Running | None:
    """The fabric that `authfabric up` runs on this machine, if it still does.

    What others may have written is not believed.
    """
    try:
        with running_file().open("rb") as file:
            if others_may_write(os.fstat(file.fileno())):
                return None
            running = msgspec.json.decode(file.read(), type=Running)
        os.kill(running.pid, 0)
    except (OSError, msgspec.DecodeError):
        return None
    return running


def others_may_write(state: os.stat_result) -> bool:
    """Whether somebody else owns a file or folder, or may write to it."""
    if os.name != "posix":
        return False
    return state.st_uid not in (os.geteuid(), 0) or bool(state.st_mode & (stat.S_IWGRP | stat.S_IWOTH))

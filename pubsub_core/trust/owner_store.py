"""The owners known to send heartbeats, in a file: after a restart each counts as unreachable until heard."""

from __future__ import annotations

import logging
from pathlib import Path

from authz import AuthFabricError
from bus.identity import write_private
from pubsub_core.errors import EventError

_log = logging.getLogger("authfabric.events")


class HeardOwners:
    """The file, or no file. Each line is a key."""

    def __init__(self, path: Path | None) -> None:
        """Raises EventError if there is a file and it cannot be read."""
        self._path = path
        self.keys: frozenset[str] = frozenset()
        if path is not None and path.exists():
            try:
                self.keys = frozenset(path.read_text().split())
            except (OSError, UnicodeDecodeError) as error:
                raise EventError(
                    f"the file of owners that were heard `{path}` cannot be read: {error}"
                ) from error

    def add(self, owners: frozenset[str]) -> None:
        """Remember these too."""
        if self._path is None or owners <= self.keys:
            return
        self.keys |= owners
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._path, "\n".join(sorted(self.keys)).encode(), replace=True)
        except (OSError, AuthFabricError) as error:
            _log.warning("which owners were heard cannot be written down: %s", error)

"""Rollback protection of a manager: the newest state of each key group it has seen, in a file.

What is sealed may still be old: whoever runs the servers, or has their disks, can put back what a manager once sealed.
The manager's own signature is on the file. Without a path it is known only until the manager ends. Several replicas may
share one file; each writes what is the most by its own knowledge and the file's.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from authz import AuthFabricError, Identity
from authz.crypto import Seal
from bus.identity import write_private
from pubsub_core.keys import MarksUnknown


class _File(msgspec.Struct, frozen=True):
    marks: dict[str, float]


_SEAL = Seal("key manager's marks", _File)


class StateMarks:
    """For each state, by its name, a number that only grows: a tree's version, or when a plan came into force."""

    def __init__(self, path: Path | None, identity: Identity) -> None:
        """Raises MarksUnknown if there is a file and it cannot be read."""
        self._path = path
        self._identity = identity
        self._marks = self._load()

    def of(self, name: str) -> float:
        return self._marks.get(name, 0)

    def keep(self, name: str, mark: float) -> None:
        """Remember that a state has come so far. Raises MarksUnknown if that cannot be written down."""
        if mark <= self.of(name):
            return
        self._marks[name] = mark
        if self._path is None:
            return
        for other, far in self._load().items():
            self._marks[other] = max(far, self.of(other))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._path, _SEAL.sign(_File(self._marks), self._identity), replace=True)
        except (OSError, AuthFabricError) as error:
            raise MarksUnknown(self._path, f"cannot be written: {error}") from error

    def _load(self) -> dict[str, float]:
        if self._path is None:
            return {}
        try:
            return dict(_SEAL.open(self._path.read_bytes(), {self._identity.public}).value.marks)
        except FileNotFoundError:
            return {}
        except (OSError, AuthFabricError) as error:
            problem = f"cannot be read: {error}; remove it if the servers' stores are as they were left"
            raise MarksUnknown(self._path, problem) from error

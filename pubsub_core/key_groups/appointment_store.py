"""Who manages the keys of which type, as a broker last knew it: in a file, so that nobody who was dismissed comes back.

The owner's signature is on each appointment, and the broker's own on the file. Without a path it is known only until
the broker ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from authz import AuthFabricError, Identity
from authz.crypto import Seal
from bus.identity import write_private
from pubsub_core.keys import ManagersUnknown


class Known(msgspec.Struct, frozen=True, array_like=True):
    """What is known of the managers of one type."""

    appointment: bytes = b""
    """The last that was heard of, as the owner signed it; nothing if there was none."""
    in_force: Mapping[str, float] = {}
    """Since when the newest plan is in force that each manager, by its key, has told."""


class _File(msgspec.Struct, frozen=True):
    types: dict[str, Known]


_SEAL = Seal("broker's key managers", _File)


class Managers:
    """What a broker knows of managers, by the UUIDs of types."""

    def __init__(self, path: Path | None, identity: Identity) -> None:
        """Raises ManagersUnknown if there is a file and it cannot be read."""
        self._path = path
        self._identity = identity
        self._types = self._load()

    def of(self, type_id: str) -> Known:
        return self._types.get(type_id, Known())

    def keep(self, type_id: str, known: Known) -> None:
        """Store this appointment, then use it. Raises ManagersUnknown."""
        if known == self.of(type_id):
            return
        types = {**self._types, type_id: known}
        if self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_private(self._path, _SEAL.sign(_File(types), self._identity), replace=True)
            except (OSError, AuthFabricError) as error:
                raise ManagersUnknown(self._path, f"cannot be written: {error}") from error
        self._types = types

    def _load(self) -> dict[str, Known]:
        if self._path is None:
            return {}
        try:
            return dict(_SEAL.open(self._path.read_bytes(), {self._identity.public}).value.types)
        except FileNotFoundError:
            return {}
        except (OSError, AuthFabricError) as error:
            problem = f"cannot be read: {error}; remove it if no manager of keys was ever replaced"
            raise ManagersUnknown(self._path, problem) from error

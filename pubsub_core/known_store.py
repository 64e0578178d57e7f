"""The brokers known before, in a file: so that a broker that was restarted waits for those it does not hear yet.

What they have of the past is then waited for, and named if it does not come. Without the file a broker knows only whom
it has heard since it started.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from authz import AuthFabricError
from bus.keystore import write_private

EVERY_SECONDS = 60.0
"""How old what stands in the file may be."""

_log = logging.getLogger("authfabric.history")


class _Known(msgspec.Struct, frozen=True):
    time: float
    brokers: dict[str, tuple[float, tuple[str, ...]]]
    """By name: when each was last there, and the types that it is trusted with."""


_decode = msgspec.msgpack.Decoder(_Known).decode


class KnownBrokers:
    """The file, or no file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._saved: dict[str, frozenset[str]] = {}
        self._at = float("-inf")

    def load(self, away: float) -> dict[str, frozenset[str]]:
        """Who was there in the last `away` seconds before the file was written, and the types of each."""
        if self._path is None:
            return {}
        try:
            known = _decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("`%s`, with the brokers that were known, cannot be read: %s", self._path, error)
            return {}
        return {
            name: frozenset(types) for name, (at, types) in known.brokers.items() if at > known.time - away
        }

    def save(self, met: Mapping[str, tuple[float, frozenset[str]]], now: float) -> None:
        """Write down who is there, if it is somebody else than before, or was written long ago."""
        types = {name: each for name, (_, each) in met.items()}
        if self._path is None or (types == self._saved and now - self._at < EVERY_SECONDS):
            return
        self._saved, self._at = types, now
        known = _Known(now, {name: (at, tuple(sorted(each))) for name, (at, each) in met.items()})
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._path, msgspec.msgpack.encode(known), replace=True)
        except (OSError, AuthFabricError) as error:
            _log.warning("which brokers are known cannot be written down: %s", error)

"""The history that the options of a command name."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from authfabric.files import history_setting
from authfabric.terminal import fail
from authz import AuthFabricError
from pubsub_core.history import INSTALL, HistoryUnavailable

if TYPE_CHECKING:
    from pubsub_core.history import HistoryStore


@contextmanager
def open_history(url: str | None, key: Path | None, broker: str) -> Iterator[HistoryStore]:
    """The history that the options name; what goes wrong with it ends the command."""
    try:
        setting = history_setting(url, key, None, broker or socket.gethostname(), create=False)
        assert setting is not None
        try:
            from pubsub_core.history import HistoryStore
        except ImportError as error:
            raise HistoryUnavailable(setting.url, INSTALL) from error
        with HistoryStore(setting.url, setting.vault) as store:
            yield store
    except AuthFabricError as error:
        fail(error)

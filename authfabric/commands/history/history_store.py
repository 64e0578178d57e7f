"""The options by which commands name a history."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from authfabric.files import DEFAULT, Database, HistoryKey, history_setting
from authfabric.terminal import fail
from authz import AuthFabricError
from pubsub_core.history import INSTALL, HistorySetting, HistoryUnavailable

if TYPE_CHECKING:
    from pubsub_core.history import HistoryStore


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """Which history is meant."""

    history: Database = DEFAULT
    history_key: HistoryKey = None
    broker: Annotated[str, typer.Option("--broker", help="The broker's name. Default: the host's.")] = ""

    @property
    def owner(self) -> str:
        """The broker's name."""
        return self.broker or socket.gethostname()

    @property
    def setting(self) -> HistorySetting:
        """Where it is, and its keys. Raises an AuthFabricError."""
        found = history_setting(self.history, self.history_key, None, self.owner, create=False)
        assert found is not None
        return found

    @contextmanager
    def open(self) -> Iterator[HistoryStore]:
        """The history; what goes wrong with it ends the command."""
        try:
            setting = self.setting
            try:
                from pubsub_core.history import HistoryStore
            except ImportError as error:
                raise HistoryUnavailable(setting.url, INSTALL) from error
            with HistoryStore(setting.url, setting.vault) as store:
                yield store
        except AuthFabricError as error:
            fail(error)

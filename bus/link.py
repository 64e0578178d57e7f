"""A connection with the credentials that are for its server, as they are found: named, or left by `authfabric up`."""

from __future__ import annotations

from bus.connection import Connection
from bus.credentials import Credentials
from bus.credentials_store import find_credentials


def connect(
    url: str, *, name: str, credentials: Credentials | None = None, connect_seconds: float = 5.0
) -> Connection:
    """A connection, to be entered. Raises CredentialsRefused if there are credentials for it that cannot be used."""
    if credentials is None and (found := find_credentials(url)) is not None:
        credentials = found.credentials
    return Connection(url, name=name, credentials=credentials, connect_seconds=connect_seconds)

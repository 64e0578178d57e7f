"""How commands connect: to the server they are told or find, with the credentials that are for it."""

from __future__ import annotations

from bus.connection import Connection
from bus.credentials_store import find_credentials


def connect(url: str, *, name: str, connect_seconds: float = 5.0) -> Connection:
    """A connection, to be entered. Raises CredentialsRefused if there are credentials for it that cannot be used."""
    found = find_credentials(url)
    credentials = found.credentials if found is not None else None
    return Connection(url, name=name, credentials=credentials, connect_seconds=connect_seconds)

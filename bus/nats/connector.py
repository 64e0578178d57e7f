"""A connection to the server, with the credentials, that are named, or that `authfabric up` runs and left."""

from __future__ import annotations

from bus.identity import Credentials, find_credentials, find_running
from bus.nats.connection import Connection
from bus.nats.dialing import ADMISSION_SECONDS
from bus.wire import DEFAULT_URL, configured_url


def connect(
    url: str | None,
    *,
    name: str,
    credentials: Credentials | None = None,
    connect_seconds: float = 5.0,
    admission_seconds: float = ADMISSION_SECONDS,
) -> Connection:
    """A connection, to be entered. Raises CredentialsRefused if there are credentials for it that cannot be used.

    The server is the one given, or named by AUTHFABRIC_NATS_URL, or by the credentials, or run by `authfabric up` on
    this machine, or on its usual port.
    """
    url = url or configured_url()
    if credentials is None and (found := find_credentials(url)) is not None:
        url, credentials = url or found.url, found.credentials
    if url is None and (running := find_running()) is not None:
        url = running.url
    return Connection(
        url or DEFAULT_URL,
        name=name,
        credentials=credentials,
        connect_seconds=connect_seconds,
        admission_seconds=admission_seconds,
    )

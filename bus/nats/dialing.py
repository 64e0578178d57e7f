"""Connecting: trying each of several servers in turn until one accepts our credentials."""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import nats.errors

from bus.errors import NotConnected
from bus.identity import Credentials, connection_key
from bus.nats.client import GuardedClient
from bus.runtime import end_task
from bus.wire import servers, without_secrets

NEEDS_CREDENTIALS = (
    "it refuses strangers: set AUTHFABRIC_CREDENTIALS to a file that `authfabric domain grant` wrote"
)
"""Why a server that requires credentials refuses a connection without them."""

UNDECIDED = "nobody has decided in time whether it may connect: does the access control service run?"
"""Why a server refuses a client that the access control service has neither admitted nor rejected."""
UNDECIDED_SECONDS = 1.0
"""A refusal that took so long was nobody's decision: one takes milliseconds, and the server waits 1.5 s for it."""
ADMISSION_SECONDS = 30.0
"""Seconds a starting process waits for an access control service that is starting, or busy."""

RETRY_SECONDS = 0.05
"""Pause between two attempts to connect again."""

DEFAULT_PORT = 4222
"""The port of a URL that names none."""

_REFUSED = "authorization"
"""A word that occurs in every refusal of a server."""

_log = logging.getLogger("authfabric.bus")

Avoid: TypeAlias = Callable[[str], bool]
"""Whether a server, given as host and port, is tried only after the others."""

_SURVIVE_FROZEN_NODES: dict[str, Any] = {
    "reconnect_time_wait": RETRY_SECONDS,
    "max_reconnect_attempts": -1,
    "ping_interval": 1,
    "max_outstanding_pings": 2,
    "connect_timeout": 2,
}


@dataclass(frozen=True, slots=True)
class Call:
    """Which servers to connect to, and the callbacks for what happens to the connection afterwards."""

    url: str
    name: str
    inbox: str
    credentials: Callable[[], Credentials | None]
    """Asked for at each attempt, so that a reconnect uses what was renewed meanwhile."""
    on_error: Callable[[Exception], Awaitable[None]]
    on_reconnected: Callable[[], Awaitable[None]]
    on_closed: Callable[[], Awaitable[None]]
    admission_seconds: float = ADMISSION_SECONDS

    async def dial(self, client: GuardedClient, seconds: float, avoid: Avoid) -> None:
        """Connect the client, to servers to `avoid` last, or raise TimeoutError or what the library says.

        If a server is there and nobody decides, that is waited for longer. Raises NotConnected if it was in vain.
        """
        trying, begun = asyncio.create_task(self._try_servers(client, avoid)), monotonic()
        try:
            await asyncio.wait([trying], timeout=seconds)
            if not trying.done() and client.undecided and (more := self.admission_seconds - seconds) > 0:
                _log.warning("%s: %s; trying for %g s more", without_secrets(self.url), UNDECIDED, more)
                await asyncio.wait([trying], timeout=more)
            if not trying.done():  # and what is heard of a link that ends now is not why
                raise NotConnected(without_secrets(self.url), UNDECIDED) if client.undecided else TimeoutError
            trying.result()
            # A server that is busy, or goes down, may have hung up already: the library tries again by itself.
            while not (client.is_connected or client.is_closed) and monotonic() < begun + seconds:  # noqa: ASYNC110
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            await end_task(trying)
            if not trying.cancelled():
                trying.exception()  # whoever was cancelled meanwhile does not ask for it

    async def _try_servers(self, client: GuardedClient, avoid: Avoid) -> None:
        """Try one server after the other, without end."""
        own: dict[str, Any] = {}
        if (credentials := self.credentials()) is not None:
            client._public_nkey = str(connection_key(credentials.identity).public)
            own = {"signature_cb": self._sign, "token": self._token}
            if credentials.tls is not None:  # from the first byte, so that nobody can talk us out of it
                own |= {"tls": credentials.tls, "tls_handshake_first": True}
        named = servers(self.url)
        shuffled = random.sample(named, len(named))
        await client.connect(
            sorted(shuffled, key=lambda each: avoid(place(each))),
            dont_randomize=True,  # this one shuffles by itself, or it could not tell whom to try last
            name=self.name,
            error_cb=self.on_error,
            reconnected_cb=self.on_reconnected,
            closed_cb=self.on_closed,
            inbox_prefix=self.inbox,
            **own,
            **_SURVIVE_FROZEN_NODES,
        )

    def _sign(self, nonce: str) -> bytes:
        credentials = self.credentials()
        assert credentials is not None
        return base64.b64encode(connection_key(credentials.identity).sign(nonce.encode()))

    def _token(self) -> str | None:
        credentials = self.credentials()
        return (credentials.token or None) if credentials is not None else None


def is_refusal(error: Exception, url: str) -> bool:
    """Whether a server says that it does not let us in, or the only one shows a certificate that does not hold."""
    wrong_server = isinstance(error, ssl.SSLCertVerificationError) and "," not in url
    return wrong_server or _REFUSED in words(error).lower()


def is_undecided(client: GuardedClient, error: Exception) -> bool:
    """Whether a server has given up, by this error, waiting for a decision about us; the client remembers it."""
    ended = isinstance(error, ConnectionResetError | nats.errors.UnexpectedEOF)
    late = monotonic() - client.dialed_at > UNDECIDED_SECONDS
    if late and (ended or _REFUSED in words(error).lower()):
        client.undecided = True
        return True
    return False


def place(server: str) -> str:
    """Host and port of a server in a URL."""
    parts = urlsplit(server)
    return f"{parts.hostname}:{parts.port or DEFAULT_PORT}"


def words(error: Exception) -> str:
    """What the library says, without its own name and the server's quotes."""
    if isinstance(error, TimeoutError) or not str(error):
        return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    if isinstance(error, ConnectionRefusedError):  # event loops say it differently
        return "connection refused"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ssl.SSLError):
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error).removeprefix("nats: ").strip("'\"")

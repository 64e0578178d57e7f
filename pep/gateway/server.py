"""The gateway's HTTP server: uvicorn, with the client's certificate in the ASGI scope."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from authz import AuthFabricError

DRAIN_SECONDS = 5
"""How long open requests may take after the gateway was told to stop."""
RECEIVE_SECONDS = 30.0
"""How long a request may take to arrive, and a new connection to send one."""
MAX_HEAD_BYTES = 64 * 1024
"""Maximum bytes of a request that are no body: its line, its headers, and what frames chunks."""


class CannotListen(AuthFabricError):
    """The address cannot be served."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"the gateway cannot listen on `{address}`: {problem}")


class Tls(NamedTuple):
    """The server's certificate and key, and the authority of client certificates."""

    certificate: Path
    key: Path
    clients: Path | None = None


class _Protocol(HttpToolsProtocol):
    """Adds limits on what strangers send, and the TLS extension of ASGI: whom the client's certificate names."""

    def __init__(self, *, receive: float, **more: Any) -> None:
        super().__init__(**more)
        self._receive = receive
        self._framing = 0
        """Bytes received since the last that belonged to a body."""
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._expect()
        self._framing += len(data)
        super().data_received(data)
        if self._framing > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"a request has at most {MAX_HEAD_BYTES} bytes besides its body")

    def on_headers_complete(self) -> None:
        self._framing = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._framing = 0
        self._arrived()
        super().on_message_complete()

    def _expect(self) -> None:
        """Close the connection unless a whole request arrives in time."""
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._receive, self.transport.abort)

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        secured = self.transport.get_extra_info("ssl_object")
        raw = secured.getpeercert(binary_form=True) if secured is not None else None
        if raw is not None:
            scope: Any = self.scope
            scope["extensions"] = {"tls": {"client_cert_chain": [ssl.DER_cert_to_PEM_cert(raw)]}}


class _Server(uvicorn.Server):
    """Leaves signals to the command that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp, host: str, port: int, tls: Tls | None = None, receive: float = RECEIVE_SECONDS
) -> AsyncIterator[int]:
    """Serve for the length of the block; yields the port, which the system chooses for 0. Raises CannotListen."""
    config = uvicorn.Config(
        app,
        host,
        port,
        http=cast(type[asyncio.Protocol], partial(_Protocol, receive=receive)),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.ERROR,  # strangers do not write the log
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
        ssl_ca_certs=str(tls.clients) if tls and tls.clients else None,
        ssl_cert_reqs=ssl.CERT_OPTIONAL if tls and tls.clients else ssl.CERT_NONE,
    )
    server = _Server(config)
    try:
        config.load()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=config.backlog)
    except (OSError, OverflowError) as error:
        raise CannotListen(f"{host}:{port}", str(error)) from None
    listening.setblocking(False)
    work = asyncio.create_task(server.serve([listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await work

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

import httptools
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


class _Parser(httptools.HttpRequestParser):
    """Goes on where a request offers another protocol: no server has to take it, and here none is taken.

    The parser stops at the end of such a request's head, and would read its body as the next request. Java's client
    offers HTTP/2 so with its first one.
    """

    def __init__(self, protocol: _Protocol) -> None:
        super().__init__(protocol)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self._protocol = protocol

    def feed_data(self, data: Any) -> None:
        while data:
            try:
                super().feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._protocol.head_for_body() + data[upgrade.args[0] :]


class _Protocol(HttpToolsProtocol):
    """Adds limits on what strangers send, and the TLS extension of ASGI: whom the client's certificate names."""

    def __init__(self, *, receive: float, **more: Any) -> None:
        super().__init__(**more)
        self.parser = _Parser(self)
        self._known: int | None = None
        """How many headers a request has whose head is read a second time; None for others."""
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

    def head_for_body(self) -> bytes:
        """A head without the offer of another protocol, after which the body of the request at hand is read."""
        lengths = [each for each in self.headers if each[0] in (b"content-length", b"transfer-encoding")]
        self._known = len(self.headers)
        return b"POST / HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % each for each in lengths) + b"\r\n"

    def on_headers_complete(self) -> None:
        self._framing = 0
        if self._known is not None:
            del self.headers[self._known :]
            self._known = None
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # its body is to come
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
        if self._known is not None:
            return
        super().on_message_begin()
        secured = self.transport.get_extra_info("ssl_object")
        raw = secured.getpeercert(binary_form=True) if secured is not None else None
        if raw is not None:
            scope: Any = self.scope
            scope["extensions"] = {"tls": {"client_cert_chain": [ssl.DER_cert_to_PEM_cert(raw)]}}


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """A socket whose connections send at once: asyncio leaves that off for sockets it did not make, and the end of an
    answer would wait 40 ms for the client's word that its head has arrived. Raises OSError or OverflowError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=backlog)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setblocking(False)
    return listening


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
        listening = listen(host, port, config.backlog)
    except (OSError, OverflowError) as error:
        raise CannotListen(f"{host}:{port}", str(error)) from None
    work = asyncio.create_task(server.serve([listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await work

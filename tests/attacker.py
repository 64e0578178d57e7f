"""Someone with a bare socket, who sends the server whatever bytes he likes."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self


class Attacker:
    """A NATS client by hand: `with Attacker(server.url) as attacker`."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("nats://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile("rb")
        self._lines.readline()
        self._socket.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()

    def publish(self, subject: bytes, payload: bytes = b"", reply: bytes = b"") -> None:
        self._socket.sendall(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload))
        self._sync()

    def publish_with_headers(self, subject: bytes, headers: bytes, payload: bytes = b"") -> None:
        sizes = (len(headers), len(headers) + len(payload))
        self._socket.sendall(b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, *sizes, headers, payload))
        self._sync()

    def _sync(self) -> None:
        """Return when the server has handled everything sent, or has thrown us out."""
        try:
            self._socket.sendall(b"PING\r\n")
            while (line := self._lines.readline()) and not line.startswith(b"PONG"):
                pass
        except OSError:
            return

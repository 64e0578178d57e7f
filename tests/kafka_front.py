"""TLS and SASL/PLAIN before a Kafka broker that speaks neither, such as librdkafka's: all else is passed on to it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path

HOST = "127.0.0.1"
API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
AUTHENTICATION_FAILED = 58


class KafkaFront:
    """One front; `port` is where clients connect, and what they are told of the port behind it."""

    def __init__(self, behind: int, user: str, password: str) -> None:
        """Without a user, nobody has to say who it is."""
        self._behind = behind
        self._secret = f"\0{user}\0{password}".encode() if user else b""
        self.port = 0

    @contextlib.asynccontextmanager
    async def serving(self, certificate: Path) -> AsyncIterator[KafkaFront]:
        """For the length of the block, under a certificate whose key stands beside it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        server = await asyncio.start_server(self._serve, HOST, 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: each request is answered before the next is read."""
        back, forth = await asyncio.open_connection(HOST, self._behind)
        known = not self._secret
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                request = await _frame(reader)
                kind, _, number = struct.unpack_from(">hhi", request)
                if kind == SASL_HANDSHAKE:
                    answer = struct.pack(">ihih5s", number, 0, 1, 5, b"PLAIN")
                elif kind == SASL_AUTHENTICATE:
                    known = request.endswith(self._secret)
                    answer = struct.pack(">ihhi", number, 0 if known else AUTHENTICATION_FAILED, -1, 0)
                elif not known and kind != API_VERSIONS:
                    break
                else:
                    _send(forth, request)
                    answer = self._readdress(await _frame(back))
                    if kind == API_VERSIONS:
                        answer = _with_sasl(answer)
                _send(writer, answer)
        writer.close()
        forth.close()

    def _readdress(self, answer: bytes) -> bytes:
        """Have clients come here where they are told of the broker behind."""
        old, new = (HOST.encode() + struct.pack(">i", port) for port in (self._behind, self.port))
        return answer.replace(old, new)


def _with_sasl(answer: bytes) -> bytes:
    """The list of what the broker understands, in its first version, with what is understood here."""
    number, error, count = struct.unpack_from(">ihi", answer)
    more = struct.pack(">hhhhhh", SASL_HANDSHAKE, 0, 1, SASL_AUTHENTICATE, 0, 0)
    return struct.pack(">ihi", number, error, count + 2) + answer[10 : 10 + 6 * count] + more


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)

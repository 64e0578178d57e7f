"""Health, readiness and metrics of a process over HTTP, from a thread that runs even when the event loop does not."""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from authz import AuthFabricError
from bus.runtime.tasks import background_work

READ_SECONDS = 5.0
"""How long whoever connects may take to ask."""


class HealthPortTaken(AuthFabricError):
    """The port for health and metrics cannot be used."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(f"health cannot be served on `{host}:{port}`: {problem}")
        self.host = host
        self.port = port


class Vitals(Protocol):
    """How a process is. Asked from another thread."""

    def live(self) -> bool:
        """Whether messages go through it: false when the loop or the bus is wedged."""

    def ready(self) -> bool:
        """Whether it should be given work."""


class _Handler(BaseHTTPRequestHandler):
    """Answers the probes of one process, whose server is bound to it by `partial`."""

    timeout = READ_SECONDS
    # Whoever asks again does so over the same connection, and an answer is one write: each thread that begins, and each
    # wait for a socket, takes the interpreter from the loop that does the work.
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def __init__(self, vitals: Vitals, registry: CollectorRegistry, *args: Any) -> None:
        self._vitals = vitals
        self._registry = registry
        super().__init__(*args)  # which answers the request, too

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/healthz":
                self._answer(self._vitals.live())
            case "/readyz":
                down = dict.fromkeys(work.name for work in background_work() if work.down)
                self._answer(self._vitals.ready() and not down, *(f"{name} has failed" for name in down))
            case "/metrics":
                self._send(200, generate_latest(self._registry), CONTENT_TYPE_LATEST)
            case _:
                self._send(404, b"ask for /healthz, /readyz or /metrics\n")

    def _answer(self, good: bool, *problems: str) -> None:
        lines = ["ok" if good else "not ok", *problems]
        self._send(200 if good else 503, "".join(f"{line}\n" for line in lines).encode())

    def _send(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Probes every few seconds are not worth a line each."""


class Collectors(Collector):
    """Several collectors as one: more may be added while it is served."""

    def __init__(self) -> None:
        self._several: list[Collector] = []

    def add(self, *more: Collector) -> None:
        self._several += more

    def collect(self) -> Iterable[Metric]:
        return (metric for each in tuple(self._several) for metric in each.collect())


class _WorkMetrics(Collector):
    """The background work of the process, in the form Prometheus collects."""

    def collect(self) -> Iterable[Metric]:
        failures = CounterMetricFamily(
            "authfabric_background_failures", "Failures of background work.", labels=["work"]
        )
        counts: Counter[str] = Counter()
        for work in background_work():
            counts[work.name] += work.failures  # several may have one name
        for name, count in counts.items():
            failures.add_metric([name], count)
        yield failures


class HealthTls(NamedTuple):
    """The certificate with which health is served over https, and its key; both are read anew when they change."""

    certificate: Path
    key: Path


class _Server(ThreadingHTTPServer):
    """Serves over http."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Strangers who hang up, or do not shake hands, do not write the log."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _TlsServer(_Server):
    """Serves over https. Whoever connects shakes hands in a thread of their own."""

    def __init__(self, tls: HealthTls, *args: Any) -> None:
        self._tls = tls
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._read = 0.0
        self._follow()
        super().__init__(*args)

    def _follow(self) -> None:
        changed = max(each.stat().st_mtime for each in self._tls)
        if changed != self._read:
            self._context.load_cert_chain(*self._tls)
            self._read = changed

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with contextlib.suppress(OSError):  # while they are being replaced, those of before go on to count
            self._follow()
        wrapped = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return wrapped, address


@contextlib.contextmanager
def serve_vitals(
    vitals: Vitals,
    collectors: Iterable[Collector],
    port: int,
    host: str = "127.0.0.1",
    tls: HealthTls | None = None,
) -> Iterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port, which may have been chosen by the system (0)."""
    registry = CollectorRegistry()
    for each in (_WorkMetrics(), *collectors):
        registry.register(each)
    handler = partial(_Handler, vitals, registry)
    try:
        address = host, port
        server = _Server(address, handler) if tls is None else _TlsServer(tls, address, handler)
    except (OSError, OverflowError) as error:
        raise HealthPortTaken(host, port, str(error)) from None
    thread = threading.Thread(
        target=server.serve_forever, args=(0.05,), name="authfabric-health", daemon=True
    )
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()

"""Health, readiness and metrics of a replica over HTTP, from a thread that runs even when the event loop does not."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from authz import AuthFabricError
from pdp.service import PROBE_SECONDS, Replica

STALE_SECONDS = 3 * PROBE_SECONDS
READ_SECONDS = 5.0
"""How long whoever connects may take to ask."""


class HealthPortTaken(AuthFabricError):
    """The port for health and metrics cannot be used."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(f"health cannot be served on `{host}:{port}`: {problem}")
        self.host = host
        self.port = port


def is_live(replica: Replica, now: float) -> bool:
    """Whether a message went through the bus and back lately: false when the loop or the bus is wedged."""
    return now - replica.probed_at < STALE_SECONDS


def is_ready(replica: Replica, now: float) -> bool:
    """Whether the replica should be given work."""
    return is_live(replica, now) and replica.connection.ready and not replica.draining


class ReplicaMetrics(Collector):
    """The replica's own counters, in the form Prometheus collects."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def collect(self) -> Iterable[Metric]:
        replica = self._replica
        yield CounterMetricFamily("authfabric_pdp_decisions", "Questions answered.", replica.answered)
        yield CounterMetricFamily(
            "authfabric_pdp_shed", "Questions refused because of overload.", replica.shed
        )
        yield CounterMetricFamily(
            "authfabric_pdp_unreadable", "Messages that were no questions.", replica.refused
        )
        yield CounterMetricFamily(
            "authfabric_bus_dropped", "Hostile or malformed messages dropped.", replica.connection.dropped
        )
        yield CounterMetricFamily("authfabric_bus_reconnects", "Reconnects.", replica.connection.reconnects)
        yield CounterMetricFamily(
            "authfabric_pdp_expired", "Questions whose asker no longer waited.", replica.expired
        )
        yield GaugeMetricFamily(
            "authfabric_pdp_queue", "Questions taken and not yet answered.", replica.queued
        )


@contextlib.contextmanager
def serve_health(
    replica: Replica, port: int, host: str = "127.0.0.1", more: Iterable[Collector] = ()
) -> Iterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port, which may have been chosen by the system (0).

    `more` are counted besides the replica's own counters.
    """
    registry = CollectorRegistry()
    for each in (ReplicaMetrics(replica), *more):
        registry.register(each)

    class Handler(BaseHTTPRequestHandler):
        timeout = READ_SECONDS

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/healthz":
                    self._answer(is_live(replica, monotonic()))
                case "/readyz":
                    self._answer(is_ready(replica, monotonic()))
                case "/metrics":
                    self._send(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                case _:
                    self._send(404, b"ask for /healthz, /readyz or /metrics\n")

        def _answer(self, good: bool) -> None:
            self._send(200 if good else 503, b"ok\n" if good else b"not ok\n")

        def _send(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Probes every few seconds are not worth a line each."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
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

"""Health and metrics of a process on the bus, from its first moment on."""

from __future__ import annotations

import contextlib
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from time import monotonic

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from authfabric.terminal import HealthAddress
from bus.nats import SILENT_SECONDS, Connection, Probes
from bus.runtime import Collectors, in_background, serve_vitals

PROBE_SECONDS = 1.0


class ConnectionMetrics(Collector):
    """What the connections of a process count."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self._connections = connections

    def collect(self) -> Sequence[Metric]:
        dropped = sum(each.dropped for each in self._connections)
        reconnects = sum(each.reconnects for each in self._connections)
        return (
            CounterMetricFamily("authfabric_bus_dropped", "Hostile or malformed messages dropped.", dropped),
            CounterMetricFamily("authfabric_bus_reconnects", "Reconnects.", reconnects),
        )


class ProcessVitals:
    """How a process is: alive, and not ready, until it is known what it works with."""

    def __init__(self) -> None:
        self.address = ""
        """Where they are served."""
        self.collectors = Collectors()
        self._stack = contextlib.AsyncExitStack()
        self._probes: Probes | None = None
        self._able: Callable[[], bool] = bool

    def live(self) -> bool:
        """Whether a message went out on each connection and came back, lately."""
        return self._probes is None or monotonic() - self._probes.heard_at < SILENT_SECONDS

    def ready(self) -> bool:
        """Whether it is connected, and able to do its work."""
        connected = self._probes is None or self._probes.connected
        return self.live() and connected and self._able()

    def begin(
        self,
        connections: Sequence[Connection],
        *collectors: Collector,
        able: Callable[[], bool] = lambda: True,
    ) -> None:
        """From now on it is ready while all these are connected and it is `able`."""
        self.collectors.add(*collectors)
        if connections:
            self.collectors.add(ConnectionMetrics(connections))
            self._probes = Probes((each, each) for each in connections)
            self._stack.callback(self._probes.end)
            in_background(self._stack, partial(_probe, self._probes))
        self._able = able


async def _probe(probes: Probes) -> None:
    while True:
        probes.send()
        await sleep(PROBE_SECONDS)


@contextlib.asynccontextmanager
async def process_vitals(asked: HealthAddress) -> AsyncIterator[ProcessVitals]:
    """Serve /healthz, /readyz and /metrics of this process for the length of the block."""
    vitals = ProcessVitals()
    with serve_vitals(vitals, [vitals.collectors], asked.port, asked.host, asked.tls) as port:
        vitals.address = asked.at(port)
        async with vitals._stack:
            yield vitals

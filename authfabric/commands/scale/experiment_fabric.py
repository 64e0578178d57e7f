"""The fabric as it is shipped, for experiments: `pdp serve` processes that follow a release, on a server."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from time import time

from authfabric.processes import OPERATOR, SERVICE, fabric
from bus.identity import read_credentials
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pdp.bundle import read_folder
from pdp.releases import Publisher
from spark_eval.measurement import ShippedFabric


@contextlib.asynccontextmanager
async def shipped_fabric(policies: Path, pdps: int, *, secure: bool = False) -> AsyncIterator[ShippedFabric]:
    """Run it for the length of a block. A secure one lets nobody in without credentials, and encrypts every link."""
    with tempfile.TemporaryDirectory(prefix="authfabric-") as name:
        folder = Path(name)
        async with fabric(
            0, policies=None, jetstream=folder / "store", keys=folder / "keys", secure=secure
        ) as running:
            operator = running.hand_out("operator", OPERATOR)
            service = running.hand_out("service", SERVICE)
            given = None if operator is None else read_credentials(operator).credentials
            async with connect(running.url, name="experiment", credentials=given) as bus:
                publisher = Publisher(bus, DEFAULT_DOMAIN, running.root, (), time)
                await publisher.push(read_folder(policies))
            for number in range(pdps):
                words = ["--trust", str(running.root.public), "--cache", str(folder / f"cache-{number}")]
                await running.add(f"pdp-{number + 1}", extra=words)
            yield ShippedFabric(
                running.url,
                running.root.public,
                None if service is None else read_credentials(service).credentials,
                list(running.replicas.values()),
                running.server,
            )

"""What is seen of a run besides its record: what processes use, and what the audit stream holds at the end."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

from authfabric.chaos.record import AuditKept, Sample
from authfabric.chaos.workload import DOMAIN
from bus.audit import AuditStore, ChainVerifier
from bus.identity import read_credentials
from bus.nats import Connection

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


def sample(who: str, pid: int) -> Sample | None:
    """What a process uses now; None if it has ended, or the system does not tell."""
    own = Path(f"/proc/{pid}")
    try:
        pages = int((own / "statm").read_text().split()[1])
        times = (own / "stat").read_text().rpartition(")")[2].split()
        descriptors = len(list((own / "fd").iterdir()))
    except (OSError, IndexError):
        return None
    return Sample(monotonic(), who, pages * _PAGE, descriptors, (int(times[11]) + int(times[12])) / _TICKS)


async def kept_records(url: str, credentials: Path) -> list[AuditKept]:
    """Follow every writer's chain through the stream, as `authfabric audit verify` does."""
    given = read_credentials(credentials).credentials
    async with Connection(url, name="auditor", credentials=given) as bus:
        store = AuditStore(bus, DOMAIN)
        kept = await store.kept()
        chains = ChainVerifier(whole=kept.start == 1)
        async for page in store.read(kept.start - 1):
            chains.take(page.writer, page.records)
    return [
        AuditKept(
            name,
            chains.starts[name],
            each.head.sequence,
            "" if each.broken is None else each.broken.problem,
            each.dropped,
        )
        for name, each in chains.writers.items()
    ]

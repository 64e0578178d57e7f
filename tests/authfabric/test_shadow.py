"""A real replica with a shadow compares what it answers, and says how much."""

from __future__ import annotations

import re
import urllib.request

from authfabric.processes.launcher import fabric
from pep import Enforcer
from tests.waiting import eventually


async def test_a_replica_counts_what_its_shadow_compared():
    async with fabric(0) as running:
        replica = await running.add("pdp-1", extra=["--shadow", "1"])
        async with Enforcer.connect(running.url, trust=[running.root.public]) as pep:
            await pep.check_many([(name, "/sales/q1", "read") for name in ("alice", "bob", "carol")])

        def compared() -> bool:
            with urllib.request.urlopen(f"{replica.ready.health}/metrics") as page:
                text = page.read().decode()
            assert "authfabric_shadow_differences_total 0.0" in text
            return float(re.search(r"^authfabric_shadow_compared_total (.*)$", text, re.M)[1]) == 3

        await eventually(compared)

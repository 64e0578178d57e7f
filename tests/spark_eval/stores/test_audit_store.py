"""The audit stream on a bus that refuses strangers is read by whoever has credentials for it."""

from __future__ import annotations

import pytest

from authfabric.scenarios.testbed import stage
from bus import NotConnected
from bus.audit import AuditStore
from bus.identity.credentials_store import VARIABLE
from spark_eval.stores.audit_store import AuditReader, PageRange, look


async def test_pages_are_read_with_the_credentials_that_the_environment_names(monkeypatch):
    async with stage(["met"], audit=True) as (met,):
        async with met.connect("writer") as bus:
            for number in range(3):
                await AuditStore(bus, "met").append("pep", [b"%d" % number], str(number))
        reader = AuditReader(met.url, "met", 10)
        with pytest.raises(NotConnected, match="AUTHFABRIC_CREDENTIALS"):
            await look(met.url, "met")
        monkeypatch.setenv(VARIABLE, str(met.access("auditor", "connect|audit")))
        assert (await look(met.url, "met")).kept == range(1, 4)
        pages = await reader._pages(PageRange(0, 2))
        assert [page.records for page in pages] == [[b"0"], [b"1"]]

"""The audit stream watched while it grows: who stands out is told, once for each time that it has doubled."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authz import Decision, Entity, Reason, Request
from bus import Connection
from bus.audit import AuditStore, AuditWriter
from spark_eval.jobs.watch import Bounds, WatchJob, watch_audit
from tests.waiting import PATIENCE, eventually

DAY = Bounds(seconds=86_400, refused=10, objects=50, undecided=3)
"""Windows so long that a test does not run across the end of two."""


def record(server, *asked):
    """Each is a subject, whether it was allowed, how often, about how many objects, and why not."""

    async def write():
        async with Connection(server.url) as bus, AuditWriter(AuditStore(bus, "default"), "writer") as writer:
            for subject, allowed, times, objects, reason in asked:
                for number in range(times):
                    request = Request(Entity(subject), Entity(f"/{number % objects}"), Entity("read"))
                    writer.record(request, Decision(allowed, reason=reason, policies=("p",)))
            await eventually(lambda: writer.stored == sum(each[2] for each in asked))

    asyncio.run(write())


def found(server, spark, **options):
    told = []
    watch_audit(WatchJob(server.url, "default", DAY, **options), spark, told.append)
    return [(each.subject, each.kind, each.count, each.decisions) for each in told]


def test_whoever_stands_out_is_told_and_nobody_else(server, spark):
    record(
        server,
        ("ann", True, 50, 2, Reason.POLICY),
        ("bob", False, 9, 2, Reason.POLICY),
        ("eve", False, 12, 2, Reason.POLICY),
        ("eve", True, 3, 2, Reason.POLICY),
        ("mal", True, 90, 90, Reason.POLICY),
        ("pam", False, 3, 1, Reason.NO_PDP),
    )
    eve, mal, pam = found(server, spark, once=True)
    assert (eve, pam) == (("eve", "refused", 12, 15), ("pam", "undecided", 3, 3))
    assert mal[:2] == ("mal", "objects")
    assert mal[2] == pytest.approx(90, rel=0.2)  # objects are counted approximately


def test_what_comes_is_told_while_it_comes_and_what_was_there_is_not(server, spark):
    record(server, ("old", False, 20, 1, Reason.POLICY))
    told = []
    job = WatchJob(server.url, "default", DAY)
    watching = threading.Thread(target=watch_audit, args=(job, spark, told.append))
    before = {each.id for each in spark.streams.active}
    watching.start()
    try:
        asyncio.run(
            eventually(lambda: any(_ready(each) for each in spark.streams.active if each.id not in before))
        )
        for _ in range(2):
            count = len(told)
            record(server, ("eve", False, 10, 1, Reason.POLICY))
            asyncio.run(eventually(lambda count=count: len(told) > count))
    finally:
        for each in spark.streams.active:
            if each.id not in before:
                each.stop()
        watching.join(PATIENCE)
    assert [(each.subject, each.count) for each in told] == [("eve", 10), ("eve", 20)]


def _ready(query):
    """Whether it has found out where it starts."""
    progress = query.lastProgress
    return progress is not None or query.status["message"].startswith("Waiting for")


def test_the_command_ends_with_1_if_somebody_stands_out(server, spark):
    record(server, ("eve", False, 3, 1, Reason.POLICY))
    words = ["spark", "watch", "--once", "--url", server.url, "--seconds", "86400", "--json"]
    quiet = CliRunner().invoke(app, words)
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    told = CliRunner().invoke(app, [*words, "--refused", "3"])
    assert told.exit_code == 1
    assert json.loads(told.stdout)["subject"] == "eve"

"""The audit stream in Parquet: each record once, also after a failure, and whatever is missing is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.processes.launcher import fabric
from authfabric.processes.local_domain import OPERATOR
from authz import Decision, Entity, Request
from bus import Connection
from bus.audit import AuditStore, AuditTrail, AuditWriter, Page
from bus.identity.credentials_store import VARIABLE, read_credentials
from pep.sync import LoopThread
from spark_eval.jobs import audit
from spark_eval.jobs.audit import (
    CHAINS,
    CHECKPOINT,
    DECISIONS,
    AuditJob,
    Chains,
    ExportFailed,
    export_audit,
    follow,
)
from spark_eval.runtime.file_store import OutputExists
from spark_eval.runtime.progress import Steps
from spark_eval.schemas import AUDITED
from spark_eval.stores.audit_store import AuditReader, PageRange, Stand, look, page_batch
from spark_eval.stores.request_store import Requests
from tests.waiting import eventually


def record(server, *names):
    """Each name is a writer that records three decisions, a page for each."""

    async def write():
        async with Connection(server.url) as bus, contextlib.AsyncExitStack() as stack:
            for name in names:
                writer = await stack.enter_async_context(AuditWriter(AuditStore(bus, "default"), name))
                for number in range(3):
                    who = Entity(f"{name}-{number}", {"level": number})
                    request = Request(who, Entity("/x"), Entity("read"), {"shift": "night"})
                    writer.record(request, Decision(number < 2, policies=("p",), epoch=7))
                    await eventually(lambda writer=writer, number=number: writer.stored > number)

    asyncio.run(write())


def pages(server, after=0):
    async def read():
        async with Connection(server.url) as bus:
            return [page async for page in AuditStore(bus, "default").read(after)]

    return asyncio.run(read())


def order(server, output):
    return AuditJob(server.url, "default", output, asyncio.run(look(server.url, "default")), pages=4)


def rows(output):
    found = pq.read_table(output / DECISIONS).sort_by("page").to_pylist()
    return [each for each in found if each["subject"] is not None]


def test_each_record_is_written_once_also_when_a_batch_fails(server, tmp_path, spark, monkeypatch):
    record(server, "ann", "bob")
    put, calls = audit.write_whole, []

    def fail_once(path, content):
        calls.append(path)
        if len(calls) == 2:
            raise OSError("disk full")
        put(path, content)

    monkeypatch.setattr(audit, "write_whole", fail_once)
    out = tmp_path / "out"
    with pytest.raises(ExportFailed, match="could not be written"):
        export_audit(order(server, out), lambda: spark, Steps(None))
    record(server, "eve")
    found = export_audit(order(server, out), lambda: spark, Steps(None))
    assert (found.holds, found.records, len(found.writers)) == (True, 9, 3)
    assert found.batch == 2  # four pages in each
    assert [each["subject"] for each in rows(out)] == [
        f"{name}-{n}" for name in ("ann", "bob", "eve") for n in range(3)
    ]
    row = rows(out)[2]
    assert (row["effect"], row["epoch"], row["policies"]) == ("deny", 7, ["p"])
    assert (row["subject_attributes"], row["context"]) == ('{"level":2}', '{"shift":"night"}')
    assert Requests.open(spark, str(out / DECISIONS)).count == 9


def test_a_range_of_numbers_always_gives_the_same_pages(server):
    record(server, "ann", "bob")
    reader = AuditReader(server.url, "default", 4)
    start = reader.initialOffset()
    assert (start, reader.getDefaultReadLimit()) == ({"after": 0}, ReadMaxRows(4))
    assert reader.latestOffset(start, ReadMaxRows(4)) == {"after": 4}
    reader.prepareForTriggerAvailableNow()
    record(server, "eve")
    assert reader.latestOffset(start, ReadAllAvailable()) == {"after": 6}
    assert reader.latestOffset({"after": 6}, ReadMaxRows(4)) == {"after": 6}
    (part,) = reader.partitions({"after": 1}, {"after": 4})
    assert [batch.column("page").to_pylist() for batch in reader.read(part)] == [[2], [3], [4]]
    assert reader.partitions({"after": 6}, {"after": 6}) == []


def test_a_long_range_is_read_by_several_tasks():
    parts = AuditReader("", "default", 1).partitions({"after": 10}, {"after": 2500})
    assert [(part.after, part.last) for part in parts] == [(10, 1034), (1034, 2058), (2058, 2500)]
    assert all(isinstance(part, PageRange) for part in parts)


def written(folder, several):
    """Pages in Parquet, as a batch holds them."""
    folder.mkdir()
    pq.write_table(
        pa.Table.from_batches([page_batch(page) for page in several], AUDITED), folder / "part.parquet"
    )
    return folder


WHOLE = Stand((), range(1, 10))


def test_chains_are_followed_from_batch_to_batch(tmp_path):
    trail = AuditTrail("ann", limit=1)
    for _ in range(6):
        trail.record(Request.of("ann", "/x", "read"), Decision(True), 0.0)
    kept, dropped = trail.drain(0.0)
    one = follow(Chains(), WHOLE, written(tmp_path / "0", [Page(1, "ann", [kept])]), 0)
    known = msgspec.json.decode(msgspec.json.encode(one), type=Chains)
    two = follow(known, WHOLE, written(tmp_path / "1", [Page(2, "ann", [dropped])]), 1)
    assert (two.holds, two.through, two.batch, two.records) == (True, 2, 1, 2)
    assert two.writers["ann"].dropped == 5


def test_what_is_missing_foreign_or_unreadable_breaks_a_chain(server, tmp_path):
    record(server, "ann")
    (first, second, third) = pages(server)
    for number, (several, problem) in enumerate(
        [
            ([first, third], "is missing: the next is number 3"),
            ([first, Page(2, first.writer, first.records * 2), Page(3, first.writer, second.records)], ""),
            ([first, second, Page(3, first.writer, first.records)], "is missing: number 1 comes again"),
            ([first, Page(2, first.writer, ())], "is unreadable"),
            ([first, Page(2, "bob", second.records)], "is by `"),
        ]
    ):
        found = follow(Chains(), WHOLE, written(tmp_path / str(number), several), 0)
        assert found.holds is not bool(problem)
        assert all(each.problem.startswith(problem) for each in found.broken.values())


def test_pages_discarded_before_they_were_read_are_a_gap(server, tmp_path):
    record(server, "ann", "bob")
    several = pages(server)
    one = follow(Chains(), WHOLE, written(tmp_path / "0", several[:2]), 0)
    two = follow(one, Stand((), range(6, 10)), written(tmp_path / "1", several[5:]), 1)
    assert two.gaps == ((3, 5),)
    assert not two.holds
    assert follow(two, Stand((), range(6, 10)), written(tmp_path / "2", []), 2).gaps == two.gaps


def test_a_stream_that_was_shortened_before_anybody_looked_is_no_gap(server, tmp_path):
    record(server, "ann")
    late = follow(Chains(), Stand((), range(2, 4)), written(tmp_path / "0", pages(server)[1:]), 0)
    assert (late.holds, late.whole) == (True, False)


def test_what_the_stream_lacks_at_its_end_is_told(server, tmp_path):
    record(server, "ann")
    one = follow(Chains(), WHOLE, written(tmp_path / "0", pages(server)[:2]), 0)
    out = tmp_path / "out"
    (out / CHAINS).mkdir(parents=True)
    (out / CHAINS / "0.json").write_bytes(msgspec.json.encode(one))
    stand = asyncio.run(look(server.url, "default"))
    found = export_audit(
        AuditJob(server.url, "default", out, Stand(stand.heads, range(1, 1))), None, Steps(None)
    )
    (broken,) = found.broken.values()
    assert broken.problem == "is missing: its writer has written 3"


def test_a_stream_that_nobody_writes_needs_no_spark(server, tmp_path):
    result = CliRunner().invoke(app, ["spark", "audit", "--out", str(tmp_path / "out"), "--url", server.url])
    assert result.exit_code == 0, result.stderr
    assert "0 records of 0 writers" in result.stdout


def test_damaged_state_is_named_and_a_foreign_folder_left_alone(server, tmp_path):
    record(server, "ann")
    (tmp_path / "out" / CHECKPOINT).mkdir(parents=True)
    (tmp_path / "out" / CHAINS).mkdir()
    (tmp_path / "out" / CHAINS / "3.json").write_text("rubbish")
    with pytest.raises(ExportFailed, match=r"chains/3.json` is missing or damaged"):
        export_audit(order(server, tmp_path / "out"), None, Steps(None))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    with pytest.raises(OutputExists, match="already exists"):
        export_audit(order(server, tmp_path / "mine"), None, Steps(None))


@pytest.fixture
def secured(tmp_path, monkeypatch):
    """The URL of a fabric that lets nobody in without credentials, and a file of credentials for it."""
    with contextlib.closing(LoopThread()) as loop:
        context = fabric(0, policies=None, keys=tmp_path / "keys", secure=True, jetstream=True)
        running = loop.run(context.__aenter__())
        yield running.url, str(running.hand_out("operator", OPERATOR))
        loop.run(context.__aexit__(None, None, None))


def written_by_ann(secured):
    """One record of somebody with credentials."""
    url, credentials = secured

    async def write():
        found = read_credentials(Path(credentials)).credentials
        async with (
            Connection(url, credentials=found) as bus,
            AuditWriter(AuditStore(bus, "default"), "ann") as writer,
        ):
            writer.record(Request.of("ann", "/x", "read"), Decision(True, policies=("p",), epoch=7))
            await eventually(lambda: writer.stored)

    asyncio.run(write())
    return url, credentials


@pytest.mark.cluster
@pytest.mark.timeout(600)  # it starts another Spark, and that one Python processes one after the other
def test_where_nobody_is_let_in_without_credentials_those_of_the_environment_are_used(secured, tmp_path):
    url, credentials = written_by_ann(secured)
    command = [
        sys.executable,
        "-m",
        "authfabric",
        "spark",
        "audit",
        "--url",
        url,
        "--out",
        str(tmp_path / "out"),
    ]
    stranger = subprocess.run(command, capture_output=True, text=True, check=False)
    assert stranger.returncode == 3, stranger.stderr
    assert not (tmp_path / "out").exists()
    known = subprocess.run(
        [*command, "--json"],
        env=os.environ | {VARIABLE: credentials},
        capture_output=True,
        text=True,
        check=False,
    )
    assert known.returncode == 0, known.stderr
    assert json.loads(known.stdout)["records"] == 1
    assert [row["subject"] for row in rows(tmp_path / "out")] == ["ann"]
    kept = "".join(
        path.read_text(errors="replace")
        for path in (tmp_path / "out" / CHECKPOINT).rglob("*")
        if path.is_file()
    )
    assert "PRIVATE" not in kept

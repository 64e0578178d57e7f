"""`authfabric audit` shows the decisions of PEPs, asked for or recycled, and where a chain breaks."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest
from nats.js.api import DiscardPolicy
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.console.decision_log import DecisionLog
from authfabric.console.pages import fragment
from authz import Decision, Identity, Reason, Request
from bus import Connection
from bus.audit import AuditRecord, AuditStore, AuditWriter, Disclosure, Vouchers, read_record
from bus.wire.subjects import AUDIT, NEWEST, RELEASES
from pep import UNVERIFIED, AuditRules, Enforcer
from tests.authfabric.pushing import authfabric
from tests.pep.recycling_world import QUESTION, only, world
from tests.waiting import PATIENCE, eventually


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


async def test_every_decision_is_audited_whether_asked_for_or_recycled(tmp_path):
    async with world(tmp_path) as here, here.replica():
        await here.push(only("bob"))
        url = ("--url", here.server.url)
        nothing = {"holds": True, "lost": 0, "unended": [], "writers": {}}
        assert await authfabric("audit", "verify", *url) == (0, nothing)
        async with here.pep(audit=True, name="shop") as pep:
            await pep.check(QUESTION)
            await pep.check(QUESTION)
            await pep.check_many([QUESTION, ("eve", "/x", "read")])
        code, found = await authfabric("audit", "verify", *url)
        (writer,) = found["writers"]
        assert (code, found["holds"], found["writers"][writer]["to"]) == (0, True, 4)
        assert writer.startswith("shop-")
        _, last = await authfabric("audit", "tail", "-n", "1", *url)
        assert (last["subject"], last["decision"], last["sequence"]) == ("eve", "deny", 4)
        words = ["audit", "tail", "-n", "2", "--json", *url]
        lines = (await asyncio.to_thread(CliRunner().invoke, app, words)).stdout.splitlines()
        assert [msgspec.json.decode(line)["sequence"] for line in lines] == [3, 4]
        pages = [page async for page in AuditStore(here.bus, "default").read()]
        records = [msgspec.msgpack.decode(each) for page in pages for each in page.records]
        inferred = [each[5][9] and each[5][9][0] for each in records]
        assert inferred == [None, "precise", "precise", None]


async def test_what_cannot_be_asked_breaks_no_chain(tmp_path):
    async with world(tmp_path) as here, here.replica():
        await here.push(only("bob"))
        async with here.pep(audit=True, name="shop") as pep:
            nameless, _ = await pep.check_many([("eve", "", "read"), QUESTION])
            assert nameless.reason is Reason.INVALID_REQUEST
        code, found = await authfabric("audit", "verify", "--url", here.server.url)
        assert (code, [each["to"] for each in found["writers"].values()]) == (0, [1])


async def test_a_break_is_named_and_the_exit_code_says_so(tmp_path):
    async with world(tmp_path) as here:
        await AuditStore(here.bus, "default").append("shop-1", [b"junk"], "1")
        code, found = await authfabric("audit", "verify", "--url", here.server.url)
        assert (code, found["holds"]) == (1, False)
        assert found["writers"]["shop-1"]["broken"] == {"sequence": 1, "problem": "is unreadable"}


async def test_what_somebody_was_shown_is_told(tmp_path):
    key = Identity.generate().public
    shown = Disclosure(
        "ann", "ward.reading", "ward.blurred", ("pulse",), ("blur",), ((key.raw, 7, 1.5),), True
    )
    async with world(tmp_path) as here:
        async with AuditWriter(AuditStore(here.bus, "default"), "north") as audit:
            audit.disclose(shown)
        url = ("--url", here.server.url)
        code, found = await authfabric("audit", "verify", *url)
        assert (code, found["holds"]) == (0, True)
        words = await asyncio.to_thread(CliRunner().invoke, app, ["audit", "verify", *url])
        assert words.stdout == "1 chain holds to where it ended\n"
        _, last = await authfabric("audit", "tail", *url)
        assert last["disclosed"]["events"] == [{"publisher": str(key), "sequence": 7, "time": 1.5}]
        assert (last["disclosed"]["subject"], last["disclosed"]["rules"]) == ("ann", ["blur"])
        words = await asyncio.to_thread(CliRunner().invoke, app, ["audit", "tail", *url])
        assert "ann: 1 past event of ward.reading as ward.blurred" in " ".join(words.stdout.split())


async def test_whoever_asks_hides_no_line_from_an_auditor_by_what_a_terminal_obeys(tmp_path):
    name = "eve\x1b[1A\x1b[2K\nallow  bob read /x"
    async with world(tmp_path) as here, here.replica():
        await here.push(only("bob"))
        async with here.pep(audit=True, name="shop") as pep:
            await pep.check(name, "/x", "read", context={"by": name})
        words = ["audit", "tail", "-n", "1", "--url", here.server.url]
        said = await asyncio.to_thread(CliRunner().invoke, app, words)
        (line,) = said.stdout.splitlines()
        assert line.isprintable()
        assert r"deny  eve\x1b[1A\x1b[2K\nallow  bob read /x read /x" in line


async def test_what_a_question_came_with_is_shown(tmp_path):
    async with world(tmp_path) as here, here.replica():
        await here.push(only("bob"))
        async with here.pep(audit=True, name="shop") as pep:
            await pep.check("eve", "/types/t", "replay", context={"from": 1.5, "during": "held('[x]')"})
        url = ("--url", here.server.url)
        _, last = await authfabric("audit", "tail", "-n", "1", *url)
        assert last["context"] == {"from": 1.5, "during": "held('[x]')"}
        words = await asyncio.to_thread(CliRunner().invoke, app, ["audit", "tail", "-n", "1", *url])
        assert """{"from":1.5,"during":"held('[x]')"}""" in " ".join(words.stdout.split())


async def test_the_tail_is_filtered_and_the_trail_is_asked_in_sql(tmp_path):
    async with world(tmp_path) as here, here.replica():
        await here.push(only("bob"))
        url = ("--url", here.server.url)
        async with here.pep(audit=True, name="shop") as pep:
            await pep.check(QUESTION)
            for name in ("eve", "eva", "dan"):
                await pep.check(name, "/x", "read")

        async def subjects(*words: str) -> list[str]:
            result = await asyncio.to_thread(
                CliRunner().invoke, app, ["audit", "tail", "--json", *words, *url]
            )
            return [msgspec.json.decode(line)["subject"] for line in result.stdout.splitlines()]

        assert await subjects("--subject", "ev") == ["eve", "eva"]
        assert await subjects("--subject", "*a") == ["eva"]
        assert await subjects("--effect", "allow") == ["bob"]
        assert await subjects("--effect", "deny", "-n", "1") == ["dan"]
        assert await subjects("--until", "1h") == []
        counts = "select effect, count(*) as n from decisions group by effect order by effect"
        export = str(tmp_path / "audit.sqlite")
        expected = (0, [{"effect": "allow", "n": 1}, {"effect": "deny", "n": 3}])
        assert await authfabric("audit", "query", counts, "--export", export, *url) == expected
    assert await authfabric("audit", "query", counts, "--export", export) == expected  # from the file alone
    result = await asyncio.to_thread(
        CliRunner().invoke, app, ["audit", "query", "delete from decisions", "--export", export]
    )
    assert result.exit_code == 2


async def test_what_a_pdp_that_crashed_has_not_signed_is_no_forgery(tmp_path):
    vouchers = Vouchers([Identity.generate().public])
    decision = Decision(True, Reason.POLICY, ("p",))
    vouchers.take(AuditRecord("shop-1", 1, b"", 100.0, Request.of("ann", "/x", "read"), decision))
    vouchers.take(AuditRecord("shop-1", 2, b"", 200.0, Request.of("bob", "/x", "read"), decision))
    vouchers.stated["pdp-1"] = 99.0  # its last word
    assert vouchers.unconfirmed(ended=[]) == {"shop-1": [1]}
    assert vouchers.unconfirmed(ended=["pdp-1"]) == {}
    assert vouchers.missing == {"shop-1": [1, 2]}


async def recorded(bus: Connection) -> list[AuditRecord]:
    """What the stream has, in order."""
    return [read_record(each) async for page in AuditStore(bus, "default").read() for each in page.records]


async def take(bus: Connection, limit: int) -> None:
    """Let the stream take so many bytes, and discard nothing for more."""
    config = (await bus.jetstream().stream_info(AUDIT)).config
    config.max_bytes, config.discard = limit, DiscardPolicy.NEW
    await bus.jetstream().update_stream(config)


async def test_a_service_that_waits_loses_nothing_of_twenty_thousand(tmp_path):
    async with world(tmp_path) as here, here.replica():
        await here.push(only("bob"))
        async with here.pep(audit=AuditRules(wait=True), name="shop") as pep:
            assert (await pep.check(QUESTION)).allowed
            assert [each.request for each in await recorded(here.bus)] == [QUESTION]
            answers = await pep.check_many([QUESTION] * 19_999, deadline=PATIENCE)
            assert all(each.allowed for each in answers)
            assert len(await recorded(here.bus)) == 20_000
        code, found = await authfabric("audit", "verify", "--url", here.server.url)
        assert (code, found["lost"], [each["to"] for each in found["writers"].values()]) == (0, 0, [20_000])


async def test_a_service_that_waits_is_denied_while_the_store_takes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("bus.audit.writer_service.AGAIN_SECONDS", 0.05)
    async with world(tmp_path) as here, here.replica():
        await here.push(only("bob"))
        async with here.pep(audit=AuditRules(wait=True), name="shop") as pep:
            assert (await pep.check(QUESTION)).allowed
            await take(here.bus, 1)
            denied = await pep.check(QUESTION, deadline=0.5)
            assert (denied.allowed, denied.decided, denied.reason) == (False, False, Reason.NOT_RECORDED)
            assert denied.detail.startswith("the audit stream did not have this decision in time: ")
            assert [each.reason for each in await pep.check_many([QUESTION], deadline=0.5)] == [denied.reason]
            async with contextlib.aclosing(pep.watch(QUESTION, every=0.5)) as watching:
                assert (await anext(watching)).reason is Reason.NOT_RECORDED
            await take(here.bus, 1024**2)
            await eventually(lambda: not pep.audit.problem)
            assert (await pep.check(QUESTION)).allowed
        said = [str(each.decision.reason) for each in await recorded(here.bus)]
        assert said == [
            "policy",
            *(["policy", "not-recorded"] * 3),
            "policy",
        ]  # what was decided, and what was given
        code, found = await authfabric("audit", "verify", "--url", here.server.url)
        assert (code, found["lost"]) == (0, 0)


async def test_nobody_is_let_through_past_the_record_by_what_cannot_be_masked(tmp_path):
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    async with world(tmp_path) as here, here.replica():
        await here.push(only("bob"))
        async with here.pep(audit=AuditRules(wait=True, mask=["subject.salary"]), name="shop") as pep:
            assert (await pep.check(QUESTION)).allowed
            asked = Request(QUESTION.subject, QUESTION.object, QUESTION.action, {"deep": deep})
            given = [await pep.check(asked), await pep.check(asked, at_least=pep.secondary.point.epoch)]
            assert [each.allowed for each in given] == [True, True]
        assert len([each for each in await recorded(here.bus) if each.request is not None]) == 3


async def test_who_waits_keeps_the_reason_why_nothing_was_decided(tmp_path):
    async with world(tmp_path) as here:
        await here.push(only("bob"))
        async with here.pep(audit=AuditRules(wait=True)) as pep:
            failed, invalid = await pep.check_many([QUESTION, ("eve", "", "read")], deadline=0.5)
            assert failed.reason in (Reason.NO_PDP, Reason.TIMEOUT)
            assert invalid.reason is Reason.INVALID_REQUEST
        assert [str(each.decision.reason) for each in await recorded(here.bus)] == [str(failed.reason)]


async def test_records_tell_two_releases_of_one_number_apart(tmp_path):
    async with world(tmp_path) as here:
        hashes = []
        for who in ("bob", "eve"):
            here.folder = tmp_path / who
            released = await here.push(only(who))
            async with here.replica() as replica, here.pep(audit=True, name=who) as pep:
                await here.applied(released, pep, replica)
                assert (await pep.check(who, "/x", "read", at_least=1)).allowed
                assert (await pep.check(who, "/x", "read")).inferred  # what is recycled says it too
            hashes.append(released.hash)
            for bucket in (RELEASES, NEWEST):  # as when a store is lost
                await here.bus.jetstream().delete_stream(f"KV_{bucket}")
        assert hashes[0] != hashes[1]
        url = ("--url", here.server.url)
        asked = "select distinct release, release_hash from decisions where subject = '%s'"
        for who, expected in zip(("bob", "eve"), hashes, strict=True):
            rows = [{"release": 1, "release_hash": expected}]
            assert await authfabric("audit", "query", asked % who, *url) == (0, rows)
        _, last = await authfabric("audit", "tail", "-n", "1", *url)
        assert (last["epoch"], last["release_hash"]) == (1, hashes[1])
        words = await asyncio.to_thread(CliRunner().invoke, app, ["audit", "tail", "-n", "1", *url])
        assert f"epoch 1 ({hashes[1][:12]})" in " ".join(words.stdout.split())
        log = DecisionLog()
        log.take(await recorded(here.bus), 0.0)
        assert (
            fragment("lines.html", lines=list(log.lines), may={"ask": False}).count(f'title="{hashes[0]}"')
            == 2
        )


async def test_who_follows_no_releases_names_none(tmp_path):
    async with world(tmp_path) as here, here.replica() as replica:
        await here.applied(await here.push(only("bob")), replica)
        async with Enforcer.connect(here.server.url, trust=UNVERIFIED, audit=True, deadline=10.0) as pep:
            assert (await pep.check(QUESTION)).epoch == 1
        assert [each.release for each in await recorded(here.bus)] == [b""]

"""Pushing policies to real replicas: under load nothing fails and nothing mixes, and who lags is named."""

from __future__ import annotations

import asyncio
import signal
import sys

import msgspec
import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authz import Decision, Request
from bus import BusError, Connection
from bus.feeds.status_reporter import StatusReporter
from bus.wire.envelope import pack
from bus.wire.messages import MemberStatus, Questions, unpack_answers
from bus.wire.scopes import Scope
from bus.wire.subjects import Mode, question
from pep import UNVERIFIED, Enforcer
from tests.authfabric.pushing import authfabric, released, write
from tests.waiting import PATIENCE, once_it_works

SUBJECTS = ["ann", "bob", "eve"]
LEASE = 2.0
SILENT = 35.0
"""Seconds of silence: members say each ten that they are there."""


class Load:
    """Services that ask all the time, and note what was not as it must be."""

    def __init__(self) -> None:
        self.allowed: dict[int, str] = {1: "ann"}
        """Who is allowed, by epoch."""
        self.complete = 1
        """The newest epoch that was reported complete."""
        self.asked = 0
        self.epochs: set[int] = set()
        self.wrong: list[str] = []
        self.stop = asyncio.Event()

    async def through_a_pep(self, pep: Enforcer) -> None:
        while not self.stop.is_set():
            complete = self.complete
            decisions = await pep.check_many([(subject, "/x", "read") for subject in SUBJECTS])
            for subject, decision in zip(SUBJECTS, decisions, strict=True):
                self._note(subject, decision, complete)

    async def in_one_message(self, bus: Connection) -> None:
        requests = [Request.of(subject, f"/{n}", "read") for n in range(200) for subject in SUBJECTS]
        subject = question(Mode.ANY, Scope.parse("domain:default"))
        while not self.stop.is_set():
            complete = self.complete
            answers = unpack_answers(await bus.ask(subject, pack(Questions(requests)), 10.0))
            for request, decision in zip(requests, answers.in_order(), strict=True):
                self._note(request.subject.id, decision, complete)
            epochs = {each.epoch for each in answers.in_order()}
            if len(epochs) != 1:
                self.wrong.append(f"one message was answered under the epochs {epochs}")

    def _note(self, subject, decision, complete) -> None:
        self.asked += 1
        if decision is None or not decision.decided:
            self.wrong.append(f"not decided: {decision}")
            return
        self.epochs.add(decision.epoch)
        if decision.epoch < complete:
            self.wrong.append(f"decided under {decision.epoch} after {complete} was complete")
        # A release may be in force before whoever pushed it has been told its epoch.
        expected = self.allowed.get(decision.epoch, SUBJECTS[(decision.epoch - 1) % len(SUBJECTS)])
        if decision.allowed is not (subject == expected):
            self.wrong.append(f"{subject} got {decision} under epoch {decision.epoch}")


async def test_a_push_under_load_changes_every_replica_and_no_answer_fails_or_mixes_epochs(tmp_path):
    async with released(tmp_path / "policies", replicas=3) as running:
        load = Load()
        async with (
            Connection(running.url) as bus,
            Enforcer.connect(running.url, deadline=10.0, trust=[running.root.public]) as pep,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(8):
                group.create_task(load.through_a_pep(pep))
            group.create_task(load.in_one_message(bus))
            for number in range(1, 4):
                subject = SUBJECTS[number % len(SUBJECTS)]
                code, done = await authfabric(
                    "policy",
                    "push",
                    str(write(tmp_path / "policies", subject)),
                    "--wait",
                    "--url",
                    running.url,
                )
                assert (code, done["epoch"]) == (0, number + 1)
                assert done["rollout"]["applied"] == ["pdp-1", "pdp-2", "pdp-3"]
                load.allowed[done["epoch"]], load.complete = subject, done["epoch"]
            load.stop.set()
        assert load.wrong == []
        assert load.epochs == set(range(1, 5))
        assert load.asked > 1000


async def test_a_member_that_does_not_answer_is_named_and_the_exit_code_says_so(tmp_path):
    async with released(tmp_path / "policies", replicas=2) as running:
        push = ("policy", "push", str(tmp_path / "policies"), "--wait", "--url", running.url)
        code, _ = await authfabric(*push)
        assert code == 0
        running.replicas["pdp-2"].freeze()
        write(tmp_path / "policies", "bob")
        code, done = await authfabric(*push, "--timeout", "3")
        assert code == 1
        assert done["rollout"]["applied"] == ["pdp-1"]
        assert list(done["rollout"]["stragglers"]) == ["pdp-2"]
        running.replicas["pdp-2"].thaw()
        code, done = await authfabric(*push)
        assert (code, done["new"]) == (0, False)
        assert done["rollout"]["applied"] == ["pdp-1", "pdp-2"]


@pytest.mark.cluster
async def test_a_frozen_member_without_a_lease_is_named_also_when_it_was_silent_for_long(tmp_path):
    async with released(tmp_path / "policies", replicas=1) as running:
        frozen = await running.add("pdp-2", extra=["--lease", "0"])
        push = ("policy", "push", str(tmp_path / "policies"), "--wait", "--url", running.url)
        assert (await authfabric(*push))[0] == 0
        frozen.freeze()
        await asyncio.sleep(SILENT)
        write(tmp_path / "policies", "bob")
        code, done = await authfabric(*push, "--timeout", "3")
        rollout = done["rollout"]
        assert (code, rollout["applied"], list(rollout["stragglers"])) == (1, ["pdp-1"], ["pdp-2"])
        assert "it has no lease" in rollout["stragglers"]["pdp-2"]
        assert rollout["bound"] is None


async def test_a_replica_that_was_frozen_through_a_push_answers_nothing_by_the_policies_of_before(tmp_path):
    """Whoever asks all the while gets its first answers as soon as it runs again: it looks at the store before them."""
    ann = pack(Questions([Request.of("ann", "/x", "read")]))
    subject = question(Mode.ANY, Scope.parse("domain:default"))

    async def answer() -> Decision | None:
        (decision,) = unpack_answers(await bus.ask(subject, ann, 0.5)).in_order()
        return decision

    async with released(tmp_path / "policies", replicas=0) as running, Connection(running.url) as bus:
        await running.add("pdp-1", extra=["--lease", str(LEASE)])
        before = await once_it_works(answer, BusError)
        assert before is not None
        assert before.allowed
        running.replicas["pdp-1"].freeze()
        push = ("policy", "push", str(write(tmp_path / "policies", "bob")), "--wait", "--url", running.url)
        code, done = await authfabric(*push, "--timeout", str(LEASE + 1))  # longer than its lease
        assert (done["epoch"], done["rollout"]["applied"]) == (2, [])
        running.replicas["pdp-1"].thaw()
        async with asyncio.timeout(PATIENCE):
            while (after := await once_it_works(answer, BusError)) is None or after.epoch < 2:
                assert after is None or not after.allowed, after
        assert (code, after.allowed, after.decided) == (1, False, True)


async def test_a_replica_that_left_is_not_waited_for(tmp_path):
    async with released(tmp_path / "policies", replicas=2) as running:
        await running.replicas.pop("pdp-2").stop()
        code, done = await authfabric(
            "policy", "push", str(write(tmp_path / "policies", "bob")), "--wait", "--url", running.url
        )
        assert (code, done["rollout"]["applied"]) == (0, ["pdp-1"])


async def test_a_member_whose_name_a_terminal_would_obey_is_named_as_it_is_written(tmp_path):
    name = "[/]eve\x1b[2K\ncomplete"
    status = MemberStatus(name, "sdp", "default", 1, lease=60.0, release="first")
    async with (
        released(tmp_path / "policies", replicas=1) as running,
        Connection(running.url) as bus,
        StatusReporter(bus, status),
    ):
        words = ["policy", "push", str(write(tmp_path / "policies", "bob")), "--wait", "--timeout", "3"]
        said = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--url", running.url])
        assert (said.exit_code, type(said.exception)) == (1, SystemExit)
        last = said.stdout.splitlines()[-2]
        assert last.startswith(r"  [/]eve\x1b[2K\ncomplete: still goes by release 1"), said.stdout
        assert all(line.isprintable() for line in said.output.splitlines())


async def test_a_push_that_nobody_applies_is_not_complete(tmp_path):
    async with released(tmp_path / "policies", replicas=0) as running:
        code, done = await authfabric(
            "policy", "push", str(write(tmp_path / "policies", "bob")), "--wait", "--timeout", "2",
            "--url", running.url,
        )  # fmt: skip
        assert (code, done["rollout"]["complete"]) == (1, False)


async def test_a_bundle_is_built_pushed_listed_and_rolled_back(tmp_path):
    async with released(tmp_path / "policies", replicas=1) as running:
        file = tmp_path / "policies.bundle"
        _, built = await authfabric(
            "policy", "build", str(write(tmp_path / "policies", "bob")), "-o", str(file)
        )
        _, done = await authfabric("policy", "push", str(file), "-m", "bob's turn", "--url", running.url)
        assert done["bundle"] == built["bundle"]
        assert (done["added"], done["removed"]) == (["only-bob"], ["only-ann"])
        code, done = await authfabric("policy", "rollback", "1", "--wait", "--url", running.url)
        assert (code, done["epoch"]) == (0, 3)
        _, history = await authfabric("policy", "list", "--url", running.url)
        said = [(each["epoch"], each["message"], each["verified"]) for each in history]
        assert said == [(3, "back to release 1", True), (2, "bob's turn", True), (1, "", True)]
        async with Enforcer.connect(running.url, trust=[running.root.public]) as pep:
            assert (await pep.check("ann", "/x", "read")).allowed


async def test_a_key_of_somebody_else_changes_nothing_until_it_is_trusted(tmp_path, monkeypatch):
    async with released(tmp_path / "policies", replicas=1) as running:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "eve"))
        push = ("policy", "push", str(write(tmp_path / "policies", "eve")), "--url", running.url)
        code, _ = await authfabric(*push)
        assert code == 3
        code, done = await authfabric(*push, "--override", "--wait", "--timeout", "3")
        assert code == 1
        assert "is not trusted here" in done["rollout"]["stragglers"]["pdp-1"]
        async with Enforcer.connect(running.url, trust=[running.root.public]) as pep:
            assert (await pep.check("ann", "/x", "read")).allowed
        _, eve = await authfabric("policy", "key")
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        _, ann = await authfabric("policy", "key")
        (tmp_path / "trusted").write_text(f"# whose releases count\n{ann['key']}\n{eve['key']}  # Eve\n")
        await running.add(
            "pdp-2", extra=["--trust", str(tmp_path / "trusted"), "--cache", str(tmp_path / "c")]
        )
        await running.replicas.pop("pdp-1").stop()
        async with Enforcer.connect(running.url, trust=[running.root.public]) as pep:
            assert (await pep.check("eve", "/x", "read")).allowed


async def test_up_can_be_pushed_to_at_once_and_remembers_what_was_pushed(tmp_path):
    for known, subject in ((False, "ann"), (True, "bob")):
        up = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "authfabric", "up", "--port", "-1", "--replicas", "1", "--json",
            stdout=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            text = b""
            while not text.endswith(b"\n}\n"):
                text += await asyncio.wait_for(up.stdout.readline(), 60.0)
            url = msgspec.json.decode(text)["url"]
            async with Enforcer.connect(url, trust=UNVERIFIED) as pep:
                assert (await pep.check("ann", "/anything", "delete")).allowed is known
            code, _ = await authfabric("policy", "push", str(write(tmp_path / "policies", subject)), "--wait")
            assert code == 0
            async with Enforcer.connect(url, trust=UNVERIFIED) as pep:
                assert (await pep.check(subject, "/anything", "delete")).allowed
        finally:
            up.send_signal(signal.SIGTERM)
            assert await up.wait() == 0

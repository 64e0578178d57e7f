"""What `policy push` and `pdp serve` refuse: errors of `check`, failing cases, all or nothing without a reason."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from authfabric.files.keys import policy_key_file
from authfabric.processes.launcher import Fabric
from bus import NatsServer
from pep import UNVERIFIED, Enforcer
from pep.trust import TRUST_VARIABLE
from tests.authfabric.pushing import authfabric, released

EVERYTHING = "- {uid: all, effect: allow, targets: {}, rules: {}}\n"


@pytest.fixture
async def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fabric]:
    """A replica that follows releases; the first lets in ann alone."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with released(tmp_path / "policies", 1) as running:
        yield running


def folder(path: Path, **texts: str) -> str:
    path.mkdir(exist_ok=True)
    for name, text in texts.items():
        (path / f"{name}.yaml").write_text(text)
    return str(path)


async def still_only_ann(url: str) -> bool:
    async with Enforcer.connect(url, trust=UNVERIFIED) as pep:
        answers = [(await pep.check(name, "/x", "read")).allowed for name in ("ann", "eve")]
    _, history = await authfabric("policy", "list", "--url", url)
    return answers == [True, False] and len(history) == 1


async def test_what_check_calls_an_error_is_not_released(running, tmp_path):
    wrong = folder(
        tmp_path / "wrong",
        bundle="attributes: {subject: {role: string}}",
        policy="- {uid: p, effect: allow, targets: {subject_id: eve},"
        " rules: {subject: {$.rloe: {condition: NotExists}}}}",
    )
    assert (await authfabric("policy", "check", wrong))[0] == 1
    assert (await authfabric("policy", "push", wrong, "--url", running.url))[0] == 3
    assert await still_only_ann(running.url)
    code, _ = await authfabric("policy", "build", wrong, "--out", str(tmp_path / "wrong.bundle"))
    assert (code, (tmp_path / "wrong.bundle").exists()) == (3, False)


async def test_policies_that_fail_their_cases_are_not_released(running, tmp_path):
    failing = folder(
        tmp_path / "failing",
        policy="- {uid: p, effect: allow, targets: {subject_id: eve}, rules: {}}",
        cases="- {subject: eve, object: /x, action: read, expect: deny}",
    )
    assert (await authfabric("policy", "test", failing))[0] == 1
    assert (await authfabric("policy", "push", failing, "--url", running.url))[0] == 3
    assert await still_only_ann(running.url)
    code, _ = await authfabric("policy", "build", failing, "--out", str(tmp_path / "failing.bundle"))
    assert (code, (tmp_path / "failing.bundle").exists()) == (3, False)


async def test_everything_to_everyone_is_released_for_a_reason_only_which_the_history_tells(
    running, tmp_path
):
    push = ("policy", "push", folder(tmp_path / "all", policy=EVERYTHING), "--wait", "--url", running.url)
    assert (await authfabric(*push))[0] == 3
    assert (await authfabric(*push, "--force", " "))[0] == 2
    assert await still_only_ann(running.url)
    assert (await authfabric(*push, "--force", "a demo for one day"))[0] == 0
    async with Enforcer.connect(running.url, trust=UNVERIFIED) as pep:
        assert (await pep.check("eve", "/x", "delete")).allowed
    _, history = await authfabric("policy", "list", "--url", running.url)
    assert [each["forced"] for each in history] == ["a demo for one day", ""]


async def test_a_folder_that_lost_its_policies_is_an_error_and_released_for_a_reason_only(running, tmp_path):
    for text in ("[]", "# - uid: all\n", ""):
        empty = folder(tmp_path / "empty", policy=text)
        code, checked = await authfabric("policy", "check", empty)
        found = [(each["kind"], each["level"], each["file"]) for each in checked["findings"]]
        assert (code, found) == (1, [("no-policies", "error", "policy.yaml")])
    push = ("policy", "push", empty, "--wait", "--url", running.url)
    assert (await authfabric(*push))[0] == 3
    assert await still_only_ann(running.url)
    assert (await authfabric(*push, "--force", "we are closing"))[0] == 0
    _, history = await authfabric("policy", "list", "--url", running.url)
    assert [each["forced"] for each in history] == ["we are closing", ""]


async def test_a_rollback_to_everything_for_everyone_tells_the_reason_again(running, tmp_path):
    push = ("policy", "push", "--url", running.url)
    await authfabric(*push, folder(tmp_path / "all", policy=EVERYTHING), "--force", "a demo for one day")
    await authfabric(*push, str(tmp_path / "policies"))
    code, _ = await authfabric("policy", "rollback", "2", "--url", running.url)
    _, history = await authfabric("policy", "list", "--url", running.url)
    assert code == 0
    assert [each["forced"] for each in history] == ["a demo for one day", "", "a demo for one day", ""]


ERROR = {
    "bundle": "attributes: {subject: {role: string}}",
    "policy": "- {uid: p, effect: allow, targets: {subject_id: eve},"
    " rules: {subject: {$.rloe: {condition: NotExists}}}}",
}
FAILING = {
    "policy": "- {uid: p, effect: allow, targets: {subject_id: eve}, rules: {}}",
    "cases": "- {subject: eve, object: /x, action: read, expect: deny}",
}


@pytest.mark.parametrize(
    ("texts", "problem"), [(ERROR, b"did you mean `role`"), (FAILING, b"1 of 1 cases fail")]
)
async def test_a_replica_starts_by_no_folder_that_a_push_would_refuse(server, tmp_path, texts, problem):
    async with replica(folder(tmp_path / "wrong", **texts), server.url) as process:
        said, error = await process.stdout.readline(), b""
        if not said:
            _, error = await process.communicate()
    assert (said, process.returncode) == (b"", 3)
    assert problem in b" ".join(error.split())


async def test_a_replica_that_allows_everything_says_so_in_its_log(server, tmp_path):
    async with replica(folder(tmp_path / "all", policy=EVERYTHING), server.url) as process:
        await process.stdout.readuntil(b"ready")
        process.terminate()
        _, said = await process.communicate()
    assert b"policy.yaml:1:4: warning: `all` allows everything to everyone" in said


@contextlib.asynccontextmanager
async def replica(policies: str, url: str) -> AsyncIterator[Process]:
    """One that goes by a folder, and says on standard output only that it is ready."""
    words = ("pdp", "serve", "--policies", policies, "--url", url, "--json")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "authfabric", *words, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def test_looking_at_the_history_makes_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv(TRUST_VARIABLE, raising=False)
    async with NatsServer(jetstream=True) as server:
        code, _ = await authfabric("policy", "list", "--url", server.url)
        assert code == 2  # nobody is trusted yet
    assert not policy_key_file().exists()
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]

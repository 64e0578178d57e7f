"""What is masked by configuration is nowhere in the audit stream, and what PDPs signed of it still holds."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.processes.launcher import ReplicaProcess
from authz import Decision, Entity, InvalidRequest, Request
from authz.authority import decision_hash
from bus import Connection, NatsServer
from bus.audit import MASKED, AuditRecord, AuditStore
from pep import AuditRules, Enforcer
from tests.authfabric.pushing import authfabric
from tests.authfabric.test_audit import recorded

POLICIES = """
- uid: well-paid-read
  effect: allow
  rules: {subject: {$.salary: {condition: Gt, value: 1000}}}
  targets: {}
- uid: nobody-drops
  effect: deny
  rules: {}
  targets: {action_id: drop}
"""
CLERKS = """
- uid: clerks-read
  effect: allow
  rules: {subject: {$.roles: {condition: AnyIn, values: [clerk]}}}
  targets: {resource_id: /x, action_id: read}
"""
SALARY, NOTE = 734_512, "a-note-for-nobody-else"
ASKED = Request.of(Entity("ann", {"salary": SALARY, "team": "red"}), "/x", "read", {"note": NOTE})
RULES = AuditRules(mask=["subject.salary", "context.*"])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The key that lets a replica decide, in a folder with that and its policies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(POLICIES)
    issue = ["cap", "issue", "--key", "root.key", "--to", "pdp.pub", "--out", "pdp.cap", "--for", "1h"]
    for command in (
        ["cap", "keygen", "root", "--unencrypted"],
        ["cap", "keygen", "pdp", "--unencrypted"],
        [*issue, "object: *", "action: decide"],
    ):
        assert CliRunner().invoke(app, command).exit_code == 0
    return (tmp_path / "root.pub").read_text().strip()


@pytest.fixture
def clerks(root: str) -> None:
    """Policies by roles that the replica looks up."""
    Path("policies", "p.yaml").write_text(CLERKS)
    Path("policies", "bundle.yaml").write_text("name: shop\nprovided: [subject.roles]\n")
    Path("people.yaml").write_text("subjects: {ann: {roles: [clerk]}}\n")
    Path("attributes.yaml").write_text("- {file: people.yaml, provides: [subject.roles]}\n")


def leaves(records: list[AuditRecord]) -> set[bytes]:
    """The hashes that PDPs have signed."""
    return {leaf for each in records if each.vouched is not None for leaf in each.vouched.leaves}


async def test_what_is_masked_is_nowhere_in_the_stream_cannot_be_guessed_and_still_holds(root):
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        await AuditStore(bus, "default").create()
        replica = await ReplicaProcess.start(
            "pdp", server.url, policies=Path("policies"), extra=["--key", "pdp.key"]
        )
        try:
            async with Enforcer.connect(
                server.url, trust=[root], deadline=20.0, name="shop", audit=RULES
            ) as pep:
                decision = await pep.check(ASKED)
                assert decision.allowed
                await pep.check_many([ASKED, Request.of("bob", "/x", "drop")])
        finally:
            await replica.stop()
        records = await recorded(bus)
        first, *_ = [each for each in records if each.request is not None]
        assert first.request.subject == Entity("ann", {"salary": MASKED, "team": "red"})
        assert first.request.context == {"note": MASKED}
        stream = b"".join([each async for page in AuditStore(bus, "default").read() for each in page.records])
        assert b"ann" in stream
        for secret in (str(SALARY).encode(), msgspec.msgpack.encode(SALARY), NOTE.encode()):
            assert secret not in stream
        # Who tries each salary that there could be finds none by the hashes.
        known = leaves(records) | {each.masked for each in records}
        assert first.masked in leaves(records)
        assert decision_hash(ASKED, decision) not in known
        verify = ("audit", "verify", "--signed", "--trust", root, "--url", server.url)
        code, found = await authfabric(*verify)
        assert (code, found["holds"], found["unsigned"]) == (0, True, {})
        assert found["signed"] == found["masked"] + 1 == 3  # nothing of the last is masked


async def test_roles_that_pdps_look_up_are_not_found_by_trying_each_where_they_are_masked(clerks, root):
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        await AuditStore(bus, "default").create()
        words = ["--key", "pdp.key", "--attributes", "attributes.yaml"]
        replica = await ReplicaProcess.start("pdp", server.url, policies=Path("policies"), extra=words)
        try:
            masking = AuditRules(mask=["subject.roles"])
            async with Enforcer.connect(server.url, trust=[root], deadline=20.0, audit=masking) as pep:
                request = Request.of("ann", "/x", "read")
                decision = await pep.check(request)
        finally:
            await replica.stop()
        assert decision.roles is not None
        records = await recorded(bus)
        (first,) = [each for each in records if each.request is not None]
        assert first.decision.roles is None
        assert first.masked in leaves(records)
        assert decision_hash(request, decision) not in leaves(records)
        verify = ("audit", "verify", "--signed", "--trust", root, "--url", server.url)
        code, found = await authfabric(*verify)
        assert (code, found["holds"], found["unsigned"], found["signed"]) == (0, True, {}, 1)


async def test_without_a_mask_a_value_can_be_guessed_by_its_hash(root):
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        await AuditStore(bus, "default").create()
        replica = await ReplicaProcess.start(
            "pdp", server.url, policies=Path("policies"), extra=["--key", "pdp.key"]
        )
        try:
            async with Enforcer.connect(server.url, trust=[root], deadline=20.0, audit=True) as pep:
                decision: Decision = await pep.check(ASKED)
        finally:
            await replica.stop()
        assert decision_hash(ASKED, decision) in leaves(await recorded(bus))


@pytest.mark.parametrize("pattern", ["salary", "", "user.salary", "subject", "subject."])
def test_a_pattern_that_fits_no_attribute_is_refused(pattern: str):
    with pytest.raises(InvalidRequest, match="fits no attribute"):
        AuditRules(mask=[pattern])
    with pytest.raises(InvalidRequest, match="fits no attribute"):
        AuditRules(mask="subject.salary")  # one text is no list of patterns

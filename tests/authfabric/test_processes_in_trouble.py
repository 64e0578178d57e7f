"""Troubles found by hand, carried out with processes: scopes, clocks, attribute files, bursts, large events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from authfabric.chaos.testbed.clock import WallClock, find_library
from authfabric.files import write_authority
from authfabric.processes.launcher import Fabric, ReplicaProcess, fabric
from authfabric.scenarios.testbed import Domain, ServerMode, stage
from bus import Scope
from pep import Enforcer
from pubsub_core import EventType
from pubsub_core.errors import InvalidEvent
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.streams import Stream
from tests.waiting import PATIENCE, eventually, once_it_works

READERS = "- {uid: readers, effect: allow, rules: {}, targets: {action_id: read}}\n"
HOUR = 3600.0


def policies(folder: Path, text: str = READERS) -> Path:
    folder.mkdir()
    (folder / "policies.yaml").write_text(text)
    return folder


@contextlib.asynccontextmanager
async def asking(running: Fabric, deadline: float = 30.0) -> AsyncIterator[Enforcer]:
    async with Enforcer.connect(
        running.url, trust=[running.root.public], recycling=None, deadline=deadline
    ) as pep:
        yield pep


async def test_a_pdp_with_very_many_scopes_is_asked_beside_a_wider_one_that_is_silent(tmp_path):
    tenants = [f"object:/tenants/{number}" for number in range(1_000)]
    async with fabric(0, policies=policies(tmp_path / "readers")) as running:
        await running.add("narrow", serve=tenants)
        wide = await running.add("wide")
        async with asking(running) as pep:
            await eventually(lambda: len(pep.asker.scopes) == len(tenants) + 1)
            assert Scope.parse("domain:default") in pep.asker.scopes
            wide.freeze()
            answers = await pep.check_many([("ann", f"/tenants/{n}", "read") for n in (0, 256, 257, 999)])
            assert [each.allowed for each in answers] == [True] * 4


async def command(*words: str, **environment: str) -> str:
    """What a command of its own process prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "authfabric",
        *words,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
    )
    return (await process.communicate())[0].decode()


@pytest.fixture
def clock(tmp_path) -> WallClock:
    library = find_library()
    if library is None:
        pytest.skip("libfaketime is not installed (extra `chaos`)")
    return WallClock(tmp_path / "clock", library)


async def test_a_pdp_whose_clock_is_an_hour_behind_is_named(tmp_path, clock):
    named = re.compile(r"the clock of the PDP `\w+` is 3,(59\d|60\d) s behind this one")
    clock.shift(-HOUR)
    folder = policies(tmp_path / "readers")
    async with fabric(0, policies=folder) as running:
        authority = write_authority(running.folder, "pdp-2", running.root)
        serve = f"pdp serve --url {running.url} --name pdp-2 --policies {folder} --json".split()
        serving = [sys.executable, "-m", "authfabric", *serve, *authority]
        running.replicas["pdp-2"] = await ReplicaProcess.run("pdp-2", serving, clock.environment)
        async with asking(running) as pep:
            await eventually(lambda: named.fullmatch(pep.asker.authenticity.clocks.problem))
        root = str(running.root.public)
        doctor = json.loads(await command("doctor", "--url", running.url, "--json", AUTHFABRIC_TRUST=root))
        (found,) = [each for each in doctor["findings"] if each["about"] == "clocks"]
        assert not found["well"]
        assert named.fullmatch(found["found"])


async def test_a_pep_whose_clock_is_hours_behind_says_why_it_denies(tmp_path, clock):
    clock.shift(-48 * HOUR)
    async with fabric(1, policies=policies(tmp_path / "readers")) as running:
        root = {"AUTHFABRIC_TRUST": str(running.root.public)}
        ask = ("ask", "ann", "/x", "read", "--url", running.url, "--json")
        assert json.loads(await command(*ask, **root))["decision"] == "allow"
        denied = json.loads(await command(*ask, **root, **clock.environment))
        assert denied["decision"] == "deny"
        assert re.search(r"is 172,(79\d|80\d) s ahead of this one$", denied["detail"])


EDITORS = """
- uid: editors
  effect: allow
  targets: {action_id: publish}
  rules: {subject: {$.department: {condition: Equals, value: editorial}}}
"""


async def test_a_replica_goes_by_the_old_attribute_file_until_the_new_one_is_read(tmp_path):
    people, slow, providers = (tmp_path / name for name in ("people.yaml", "slow", "attributes.yaml"))
    people.write_text("subjects: {ann: {department: editorial}, bob: {department: editorial}}\n")
    providers.write_text("- {file: people.yaml, provides: [subject.department]}\n")
    os.mkfifo(slow)  # reading it lasts until its writer is done
    editors = policies(tmp_path / "editors", EDITORS)
    (editors / "bundle.yaml").write_text("{name: editors, provided: [subject.department]}\n")
    async with fabric(0, policies=editors) as running:
        await running.add("pdp-1", extra=["--attributes", str(providers)])
        async with asking(running) as pep:
            assert (await pep.check("ann", "/x", "publish")).allowed
            with slow.open("r+b", buffering=0) as writer:
                slow.replace(people)
                assert (await pep.check("bob", "/x", "publish")).allowed
                new = tmp_path / "new"
                new.write_text("subjects: {eve: {department: editorial}}\n")
                writer.write(new.read_bytes())
                new.replace(people)

            async def look() -> None:
                assert (await pep.check("eve", "/x", "publish")).allowed

            await once_it_works(look, AssertionError)


@contextlib.asynccontextmanager
async def news() -> AsyncIterator[tuple[Domain, str]]:
    """A domain with a PDP and a broker, and a type of events about anything."""
    async with stage(["town"], ServerMode.OPEN) as (domain,):
        kind = EventType.new(
            "town.News", domain.key.public, [("number", "integer"), ("text", "string")], uuid4
        )
        await domain.publish_types(SignedType.sign(kind, domain.key))
        await domain.release("- {uid: open, effect: allow, rules: {}, targets: {}}\n", force="it is a test")
        await domain.start_pdp()
        await domain.start_broker([domain], domain.key)
        yield domain, kind.name


async def test_a_burst_waits_for_whoever_reads_and_an_event_that_is_too_large_is_in_the_way_of_none():
    burst = 10_000
    async with (
        news() as (domain, kind),
        domain.client("writer", {}) as writer,
        domain.client("reader", {}) as reader,
    ):
        stream, publisher = Stream(await reader.subscriber(kind)), await writer.publisher(kind)

        async def publish() -> None:
            for number in range(burst):
                if number == burst // 2:
                    with pytest.raises(InvalidEvent, match="must have at most"):
                        await publisher.publish(number=-1, text="x" * 600_000)
                await publisher.publish(number=number)
            async with asyncio.timeout(PATIENCE):
                await publisher.flush()

        await asyncio.gather(publish(), stream.until(burst - 1))
        assert stream.read == list(range(burst))

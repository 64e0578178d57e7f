"""What an application that changes has started anew: it is said before, and one after the other, under load."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from pubsub_core import EventClient
from pubsub_core.errors import KeysAwaited
from tests.authfabric.test_event_quickstart import run
from tests.waiting import eventually, once_it_works, printed_document

TEXT = """
owner: nhs
types:
  Prescribed: {{attributes: {{drug: string, patient: 'string, sealed'}}, keep: {keep}}}
brokers: {{east: {{history: default}}, west: {{}}, north: {{history: default}}}}
clients:
  surgery: {{broker: [east, north], publishes: [Prescribed]}}
  doctor: {{broker: [north, east], subscribes: {{Prescribed: all}}}}
  researcher: {{broker: west, subscribes: {{Prescribed: [drug]}}}}
"""


@contextlib.asynccontextmanager
async def told_up(log: Path) -> AsyncIterator[None]:
    """`authfabric up --events`, whose standard error goes to a file."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "authfabric", "up", "--events", "--port", "-1", "--replicas", "1", "--json",
            stdout=asyncio.subprocess.PIPE, stderr=errors, start_new_session=True,
        )  # fmt: skip
    await printed_document(process)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_brokers_whose_settings_changed_are_started_anew_one_after_the_other(tmp_path):
    file, log = tmp_path / "surgery.yaml", tmp_path / "log"

    def said(pattern: str) -> list[str]:
        return re.findall(pattern, log.read_text())

    async with told_up(log):
        file.write_text(TEXT.format(keep="90d"))
        await run("-m", "authfabric", "event", "apply", str(file))
        file.write_text(TEXT.format(keep="30d"))
        planned = await run("-m", "authfabric", "event", "plan", str(file))
        assert planned.splitlines() == [
            "surgery: 2 changes",
            "  ~ starts surgery-broker-east anew: what is kept",
            "  ~ starts surgery-broker-north anew: what is kept",
        ]
        async with (
            EventClient.connect(profile="surgery") as surgery,
            EventClient.connect(profile="doctor") as doctor,
        ):
            news = await doctor.subscriber("Prescribed", durable="ward")
            publisher, applied = await surgery.publisher("Prescribed"), asyncio.Event()
            sent = 0

            async def publish_one() -> None:
                await publisher.publish(drug=str(sent), patient="p1")
                await publisher.flush()

            async def publish() -> None:
                nonlocal sent
                while not applied.is_set():
                    sent += 1
                    await once_it_works(publish_one, KeysAwaited)  # a broker may be without keys for a moment

            publishing = asyncio.create_task(publish())
            await run("-m", "authfabric", "event", "apply", str(file))
            applied.set()
            await publishing
            read = [(await anext(news))["drug"] for _ in range(sent)]
            assert read == [str(number) for number in range(1, sent + 1)]
        ends = "has ended|runs"
        east, north = (said(rf"surgery-broker-{each} (?:{ends})") for each in ("east", "north"))
        both = said(rf"surgery-broker-(?:east|north) (?:{ends})")
        assert len(east) == len(north) == 3
        assert [each.removeprefix("surgery-broker-") for each in both[2:]] == [
            "east has ended", "east runs", "north has ended", "north runs",
        ]  # fmt: skip
        assert len(said("surgery-broker-west runs")) == 1
        assert (await run("-m", "authfabric", "event", "plan", str(file))).endswith("as the file says\n")


async def test_every_death_of_a_broker_is_told(tmp_path):
    file, log = tmp_path / "surgery.yaml", tmp_path / "log"
    file.write_text(TEXT.format(keep="90d"))
    async with told_up(log):
        await run("-m", "authfabric", "event", "apply", str(file))
        runs = re.compile(r"surgery-broker-west runs \(pid (\d+)\)")
        told = re.compile(r"surgery-broker-west has ended by SIGKILL; it is started anew in")

        async def said(pattern: re.Pattern[str], times: int) -> str:
            """What was said for the so many-th time."""
            await eventually(lambda: len(pattern.findall(log.read_text())) >= times)
            return pattern.findall(log.read_text())[times - 1]

        for times in range(1, 4):
            os.kill(int(await said(runs, times)), signal.SIGKILL)
            await said(told, times)

"""A secondary decision point that several services share answers like one inside them."""

from __future__ import annotations

import asyncio
import signal
import sys
import urllib.request

import msgspec
from typer.testing import CliRunner

from authfabric.cli import app
from pep import UNVERIFIED, Enforcer
from tests.pep.recycling_world import ANN, QUESTION, only, world
from tests.waiting import eventually


async def test_several_services_share_what_one_of_them_asked(tmp_path):
    async with world(tmp_path) as here, here.replica() as replica:
        url = here.server.url
        first = await here.push(only("bob"))
        await here.applied(first, replica)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "authfabric", "sdp", "serve", "--as", "host-1", "--url", url,
            "--trust", str(ANN.public), "--json", "--deadline", "20",
            stdout=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            text = b""
            while not text.endswith(b"\n}\n"):
                text += await asyncio.wait_for(process.stdout.readline(), 60.0)
            ready = msgspec.json.decode(text)
            assert ready["serves"] == ["domain:host-1"]
            async with (
                Enforcer.connect(url, domain="host-1", deadline=20.0, trust=UNVERIFIED) as shop,
                Enforcer.connect(url, domain="host-1", deadline=20.0, trust=UNVERIFIED) as bank,
            ):
                asked = await until_recycled(shop)
                assert asked.allowed
                before = here.asked
                shared = await bank.check(QUESTION)
                assert (shared.allowed, shared.inferred.method, here.asked) == (True, "precise", before)
                second = await here.push(only("eve"))
                decision = await bank.check(QUESTION, at_least=second.epoch)
                assert (decision.allowed, decision.epoch) == (False, second.epoch)
            health = await asyncio.to_thread(urllib.request.urlopen, f"{ready['health']}/readyz")
            assert health.status == 200
        finally:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


async def until_recycled(pep: Enforcer):
    """The first answer that came from a cache: the process may still be finding its place in the feed."""
    found = []

    async def ask() -> None:
        while not found:
            decision = await pep.check(QUESTION)
            if decision.inferred is not None:
                found.append(decision)

    task = asyncio.create_task(ask())
    await eventually(lambda: task.done())
    return found[0]


def test_it_must_not_ask_itself():
    result = CliRunner().invoke(app, ["sdp", "serve", "--as", "default"])
    assert result.exit_code == 2

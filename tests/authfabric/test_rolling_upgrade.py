"""Replicas of two versions side by side: one after the other is replaced by a newer one, and nobody notices."""

from __future__ import annotations

import asyncio
from time import time

from authfabric.overview import look
from authfabric.processes import fabric
from authz import Identity
from bus.feeds import MemberPoll
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pdp.bundle import Bundle, File
from pdp.releases import Publisher
from pep import Enforcer
from tests.waiting import PATIENCE, once_it_works

POLICY = "- {uid: ann-reads, effect: allow, targets: {subject_id: ann, action_id: ACTION}, rules: {}}\n"
NEWER = """
import msgspec
import bus.wire.envelope as envelope

class Newer:
    '''Adds a field to every message, as the next version may.'''
    encoder = envelope._encoder

    def encode(self, message):
        fields = msgspec.msgpack.decode(self.encoder.encode(message))
        return msgspec.msgpack.encode([*fields, {"of": "a newer version"}])

envelope._encoder = Newer()
"""


class NotYet(Exception):
    """Not everyone decides by what is in force."""


def policies(action: str) -> Bundle:
    return Bundle.of([File("p.yaml", POLICY.replace("ACTION", action))])


async def test_replicas_are_replaced_by_newer_ones_one_after_the_other_without_a_failure(
    tmp_path, monkeypatch
):
    """Both versions answer, announce themselves and follow releases; whoever is older skips what it does not know."""
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "sitecustomize.py").write_text(NEWER)
    root = Identity.generate()
    trust = ["--trust", str(root.public)]
    failed, asked = list[str](), 0

    async def ask(pep: Enforcer) -> None:
        nonlocal asked
        while True:
            decision = await pep.check("ann", f"/{asked}", "read", deadline=PATIENCE)
            asked += 1
            if not decision.allowed:
                failed.append(str(decision))
            await asyncio.sleep(0.01)

    async with (
        fabric(0, policies=None, jetstream=tmp_path / "store", root=root, keys=tmp_path / "keys") as running,
        connect(running.url, name="test") as bus,
    ):
        publisher = Publisher(bus, DEFAULT_DOMAIN, root, (), time)
        await publisher.push(policies("read"))
        for name in ("pdp-1", "pdp-2"):
            await running.add(name, extra=[*trust, "--cache", str(tmp_path / name)])
        async with (
            Enforcer.connect(running.url, trust=[root.public], recycling=None, audit=False) as pep,
            MemberPoll(bus, DEFAULT_DOMAIN, detailed=True) as poll,
        ):
            asking = asyncio.create_task(ask(pep))
            monkeypatch.setenv("PYTHONPATH", str(tmp_path / "newer"))
            for name in ("pdp-1", "pdp-2"):
                await running.replicas.pop(name).stop()
                await running.add(f"newer-{name}", extra=[*trust, "--cache", str(tmp_path / f"newer-{name}")])
                released = (await publisher.push(policies("[read, write]"), name)).released

                async def complete(hash_: str = released.hash) -> None:
                    poll.call()
                    view = await look(bus, DEFAULT_DOMAIN, [root.public], poll)
                    if {each.hash for each in view.members if each.state == "in force"} != {hash_}:
                        raise NotYet

                await once_it_works(complete, NotYet)
                before = asked
                while asked < before + 20 and not failed:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.wait([asking])
    assert asked > 40
    assert not failed

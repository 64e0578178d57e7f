"""PEPs that recycle, against real replicas and real pushes: no answer is of policies that are no more."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from time import time

import pytest

from authfabric.chaos.testbed.proxy import link
from authfabric.files.keys import own_identity
from authfabric.processes.launcher import fabric
from authz import Request
from authz.decision import Decision
from pdp.abac import Algorithm, read_policies, reference
from pdp.abac.reference import Reference
from pdp.engine.source import PolicySource
from pep import Enforcer, LeaseRules, Recycling
from tests.authfabric.pushing import authfabric, write
from tests.pdp.cases import Cases
from tests.sdp_cache.difftest import specified
from tests.sdp_cache.worlds import SUBJECTS, World
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    for name in ("DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


class Trace:
    """Random policies, random requests about them, and what was answered that should not have been."""

    def __init__(self, seed: int) -> None:
        self._cases = Cases(seed)
        self._pick = random.Random(seed)
        self._policies = {each["uid"]: each for each in self._cases.policies(8)}
        self.requests = list(self._cases.requests(60))
        self.references: dict[int, Sequence[PolicySource]] = {}
        """What decides, by epoch."""
        self.complete = 0
        """The newest epoch that everyone has acknowledged."""
        self.inferred: dict[str, int] = {}
        self.unjudged: dict[tuple[int, object, bool], Request] = {}
        self.wrong: list[str] = []
        self.stop = asyncio.Event()

    def change(self, folder: Path) -> Sequence[PolicySource]:
        """Alter, add or remove a policy, and write all of them to a folder."""
        uid = f"p{self._pick.randrange(8)}"
        if self._pick.random() < 0.2 and len(self._policies) > 1:
            self._policies.pop(uid, None)
        else:
            self._policies[uid] = self._cases.policy(uid)
        text = json.dumps(list(self._policies.values()))
        folder.mkdir(exist_ok=True)
        (folder / "policies.json").write_text(text)
        return [Reference(read_policies(text), Algorithm.DENY_OVERRIDES)]

    def attributes(self, folder: Path) -> list[str]:
        """What tells PDPs where to look attributes up."""
        return []

    def seen(self, request: Request) -> Request:
        """The request as PDPs decide it."""
        return request

    async def push(self, folder: Path, url: str, *wait: str) -> dict:
        """Push a change; returns what the command says."""
        changed = self.change(folder)
        code, done = await authfabric("policy", "push", str(folder), "--url", url, *wait)
        assert code == 0, done
        self.references[done["epoch"]] = changed
        return done

    async def ask(self, pep: Enforcer) -> None:
        while not self.stop.is_set():
            complete = self.complete
            asked = self._pick.choices(self.requests, k=20)
            for request, decision in zip(asked, await pep.check_many(asked), strict=True):
                self._note(request, decision, complete)
            await asyncio.sleep(0)  # what is answered from caches lets nobody else have a turn

    def _note(self, request: Request, decision: Decision, complete: int) -> None:
        if not decision.decided:
            self.wrong.append(f"not decided: {decision}")
        if decision.epoch < complete:
            self.wrong.append(f"decided under {decision.epoch} after {complete} was complete")
        if decision.inferred is not None:
            method = decision.inferred.method
            self.inferred[method] = self.inferred.get(method, 0) + 1
        self.unjudged[decision.epoch, request.key, decision.allowed] = request

    def judge(self) -> int:
        """Compare what was answered with the reference under the epoch it names."""
        for (epoch, _, allowed), request in self.unjudged.items():
            if reference.decide(self.references[epoch], self.seen(request)).allowed is not allowed:
                self.wrong.append(f"{request} got {allowed} under epoch {epoch}")
        return len(self.unjudged)


class WorldTrace(Trace):
    """The same, with rules about roles or labels; the roles are those sent, or those that PDPs look up."""

    def __init__(self, seed: int, kinds: str, looked_up: bool = False) -> None:
        super().__init__(seed)
        self._world = World(seed, kinds, looked_up)
        self.requests = [self._world.request() for _ in range(150)]

    def change(self, folder: Path) -> Sequence[PolicySource]:
        policies = self._world.change()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file in self._world.files():
            (folder / file.path).write_text(file.text)
        return specified(policies)

    def attributes(self, folder: Path) -> list[str]:
        if not self._world.looked_up:
            return []
        subjects = {each: {"roles": self._world.roles(each, 0.0)[0]} for each in SUBJECTS}
        (folder / "people.json").write_text(json.dumps({"subjects": subjects}))
        text = "- {file: people.json, provides: [subject.roles], lifetime: 600}\n"
        (folder / "attributes.yaml").write_text(text)
        return ["--attributes", str(folder / "attributes.yaml")]

    def seen(self, request: Request) -> Request:
        return self._world.seen(request, 0.0)[0] if self._world.looked_up else request


IMPRECISE = Recycling(precise=0, certificates=0)


@pytest.mark.parametrize(
    ("trace", "recycling", "methods"),
    [
        (lambda: Trace(1), Recycling(), ("precise", "certificate")),
        (lambda: WorldTrace(1, "r"), IMPRECISE, ("saam-rbac",)),
        (lambda: WorldTrace(1, "r", looked_up=True), IMPRECISE, ("saam-rbac",)),
        (lambda: WorldTrace(2, "l"), IMPRECISE, ("saam-blp",)),
    ],
    ids=["attributes", "roles", "roles looked up", "labels"],
)
async def test_no_answer_differs_from_the_reference_and_after_an_acknowledged_change_none_is_older(
    tmp_path, trace, recycling, methods
):
    trace = trace()
    async with fabric(0, policies=None, jetstream=True, root=own_identity()) as running:
        folder, trust = tmp_path / "policies", [own_identity().public]
        await trace.push(folder, running.url)
        extra = trace.attributes(tmp_path)
        await asyncio.gather(*(running.add(f"pdp-{n}", extra=extra) for n in (1, 2)))
        connect = Enforcer.connect
        async with (
            connect(running.url, trust=trust, deadline=20.0, name="shop", recycling=recycling) as shop,
            connect(running.url, trust=trust, deadline=20.0, name="bank", recycling=recycling) as bank,
            asyncio.TaskGroup() as group,
        ):
            for pep in (shop, bank):
                group.create_task(trace.ask(pep))
            for _ in range(4):
                done = await trace.push(folder, running.url, "--wait")
                trace.complete = done["epoch"]
                kinds = [name.split("-")[0] for name in done["rollout"]["applied"]]
                assert kinds == ["bank", "pdp", "pdp", "shop"]
            trace.stop.set()
        assert trace.judge() > 100
        assert trace.wrong == []
        assert set(trace.inferred) == set(methods)
        assert all(count > 10 for count in trace.inferred.values())


async def test_with_the_feed_cut_nothing_of_the_old_policies_is_answered_after_the_lease(tmp_path):
    lease = LeaseRules(seconds=2.0)
    async with (
        fabric(0, policies=None, jetstream=True, root=own_identity()) as running,
        link(running.url) as cable,
    ):
        push = ("policy", "push", str(write(tmp_path / "policies", "ann")), "--url", running.url)
        assert (await authfabric(*push))[0] == 0
        await running.add("pdp-1")
        question = Request.of("ann", "/x", "read")
        trust = [own_identity().public]
        async with Enforcer.connect(cable.url, trust=trust, lease=lease, deadline=20.0) as pep:
            await eventually(lambda: pep.secondary.feed.ready.is_set())
            assert (await pep.check(question)).allowed
            cable.cut()
            write(tmp_path / "policies", "bob")
            assert (await authfabric(*push))[0] == 0
            stored = time()
            while True:
                asked = time()
                decision = await pep.check(question, deadline=0.05)
                if not decision.allowed:
                    break
                assert asked < stored + lease.seconds
            assert decision.inferred is None
            # Whoever pushes waits for it as long as it might still answer, and no longer.
            code, done = await authfabric(*push, "--wait")
            assert (code, done["rollout"]["applied"]) == (0, ["pdp-1"])
            cable.mend()
            await eventually(lambda: pep.secondary.point.epoch == done["epoch"])
            assert not (await pep.check(question)).allowed

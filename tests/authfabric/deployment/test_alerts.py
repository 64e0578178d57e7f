"""Each alert fires in a real Prometheus when that goes wrong which it is about, and none fires before."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
import yaml
from prometheus_client.registry import Collector

from authfabric.processes.launcher import fabric
from authz import Identity
from bus.identity import create_key
from bus.runtime import in_background, serve_vitals
from bus.server import NatsServer
from bus.wire.answer_mac import wrap
from pdp.replica import PolicyPoint, ReplicaMetrics, Shadow, ShadowMetrics
from pep import UNVERIFIED, Enforcer, Strategy
from pep.metrics import EnforcerMetrics
from pep.trust import Refusal
from tests.authfabric.pushing import authfabric, write
from tests.deciders import Gated, Readers
from tests.pdp.replica.test_shadow import READ, SECRET, Faulty, policies
from tests.pep.fabric import asking, serving
from tests.pep.mallory import PDP, ROOT, Heard, answered, mallory, trusting
from tests.pep.trust.test_clock_skew import HOUR, announcing
from tests.prometheus import RULES, find_program, prometheus
from tests.waiting import eventually
from tests.warrants import warrant

ALERTS = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
ANN, BOB = Identity.generate(), Identity.generate()


class Well:
    """A process that is well."""

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return True


@contextlib.contextmanager
def serving_metrics(*collectors: Collector) -> Iterator[str]:
    with serve_vitals(Well(), collectors, 0) as port:
        yield f"127.0.0.1:{port}"


def test_the_rules_are_such_as_prometheus_takes():
    done = subprocess.run(
        [find_program("promtool"), "check", "rules", str(RULES)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, f"{len(ALERTS)} rules found" in done.stdout) == (0, True), done.stderr


async def test_replicas_that_refuse_a_release_lose_the_store_or_die(tmp_path):
    for name, identity in (("ann", ANN), ("bob", BOB)):
        create_key(tmp_path / f"{name}.key", identity, None)
    ann, both = ["--trust", str(ANN.public)], ["--trust", str(ANN.public), "--trust", str(BOB.public)]

    async def push(by: str) -> None:
        words = ("--key", str(tmp_path / f"{by}.key"), *both, "--url", running.url)
        code, told = await authfabric("policy", "push", str(write(tmp_path / "policies", by)), *words)
        assert code == 0, told

    async with fabric(0, policies=None, jetstream=True) as running:
        await push("ann")
        replicas = [
            await running.add(name, extra=[*trusted, "--lease", "3", "--cache", str(tmp_path / name)])
            for name, trusted in (("narrow", ann), ("wide", both))
        ]
        addresses = [str(each.ready.health).removeprefix("http://") for each in replicas]
        async with prometheus(tmp_path, {"authfabric-pdp": addresses}) as watching:
            await push("bob")
            await watching.fires(
                "AuthFabricReleasesDiffer", "AuthFabricReleaseBlocked", "AuthFabricReleaseRefused"
            )
            await running.server.stop()
            await watching.fires("AuthFabricLeaseEnded")
            await replicas[0].kill()
            await watching.fires("AuthFabricReplicaDown")


async def test_a_replica_that_is_asked_too_much_or_decides_slowly(server, tmp_path):
    gated = Gated()
    async with (
        serving(server.url, gated, "domain:alerts", max_queue=1) as busy,
        asking(server.url, "domain:alerts", domain="alerts", patient=True, deadline=60.0) as pep,
    ):
        with serving_metrics(ReplicaMetrics(busy)) as address:
            async with prometheus(tmp_path, {"authfabric-pdp": [address]}) as watching:
                first = asyncio.create_task(pep.check("ann", "/x", "read", strategy=Strategy.QUEUE))
                await eventually(lambda: busy.queued == 1)
                began = monotonic()
                second = asyncio.create_task(pep.check("ann", "/y", "read"))
                await watching.fires("AuthFabricOverload")
                await eventually(lambda: monotonic() - began > 0.5)
                gated.gate.set()
                assert (await first).allowed
                second.cancel()
                await watching.fires("AuthFabricSlowDecisions")


async def test_a_pep_that_is_lied_to_and_one_whose_pdp_has_a_wrong_clock(server, tmp_path):
    def forge(heard: Heard) -> list[bytes]:
        return [wrap(PDP.public.raw, bytes(16), heard.lie())]

    gated = Gated()
    async with (
        serving(server.url, gated, authority=warrant(ROOT, holder=PDP)),
        trusting(server.url, PDP, recycling=None) as pep,
    ):
        with serving_metrics(EnforcerMetrics(pep)) as address:
            async with prometheus(tmp_path, {"authfabric-pep": [address]}) as watching:
                async with mallory(server.url, forge):
                    assert not (await answered(pep, gated, Refusal.FORGED)).allowed
                    await watching.fires("AuthFabricForgedAnswers")
                async with announcing(server.url, Identity.generate(), ahead=HOUR):
                    await watching.fires("AuthFabricClockWrong")


async def test_a_pep_whose_decisions_are_not_recorded(tmp_path):
    async with (
        NatsServer() as server,  # which keeps nothing, so that there can be no audit stream
        serving(server.url, Readers()),
        Enforcer.connect(server.url, trust=UNVERIFIED, recycling=None, audit=True, deadline=60.0) as pep,
    ):
        with serving_metrics(EnforcerMetrics(pep)) as address:
            async with prometheus(tmp_path, {"authfabric-pep": [address]}) as watching:
                for _ in range(12):
                    await pep.check_many([("ann", f"/{number}", "read") for number in range(1000)])
                await watching.fires("AuthFabricAuditLoses")


async def test_work_that_fails_and_an_engine_that_errs(tmp_path):
    broken = asyncio.Event()

    async def work() -> None:
        await broken.wait()
        raise RuntimeError("on purpose")

    async with contextlib.AsyncExitStack() as stack:
        shadow = await stack.enter_async_context(Shadow(1.0, lambda case: None, effort=1.0))
        rules = policies(READ)
        point = PolicyPoint(rules, 7, observe=shadow.watch(rules))
        point.engine = Faulty(point.engine)
        address = stack.enter_context(serving_metrics(ShadowMetrics(shadow)))
        in_background(stack, work)
        async with prometheus(tmp_path, {"authfabric-pdp": [address]}) as watching:
            await point.decide_many([SECRET])
            await watching.fires("AuthFabricEngineDiffers")
            broken.set()
            await watching.fires("AuthFabricBackgroundFails")


@pytest.mark.parametrize("alert", [each["alert"] for each in ALERTS])
def test_every_alert_is_tried(alert):
    assert f'"{alert}"' in Path(__file__).read_text()

"""A clock that is wrong is named: in the log, by a metric, by the doctor, and in the denial."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from time import time

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authz import Identity, Reason
from bus import Connection
from bus.wire.envelope import pack
from bus.wire.subjects import ANNOUNCE
from pdp.replica.answer_authority import AnswerAuthority
from pep import Enforcer
from pep.metrics import EnforcerMetrics
from pep.trust.clock_skew import KEPT_SECONDS, Clocks
from tests.pep.mallory import READ, ROOT
from tests.waiting import eventually
from tests.warrants import right

PDP, OTHER = Identity.generate(), Identity.generate()
HOUR = 3_600


@contextlib.asynccontextmanager
async def announcing(url: str, *holders: Identity, ahead: float, **validity: int) -> AsyncIterator[None]:
    """What replicas say, every moment, on machines whose clock is so far ahead."""

    async def say(bus: Connection) -> None:
        several = [AnswerAuthority(each, [right(ROOT, each, **validity)], time() + ahead) for each in holders]
        while True:
            for warrant in several:
                bus.send(ANNOUNCE, pack(warrant.announcement(["domain:default"], 5.0, time() + ahead)))
            await asyncio.sleep(0.05)

    async with Connection(url) as bus:
        saying = asyncio.create_task(say(bus))
        try:
            yield
        finally:
            saying.cancel()


@contextlib.asynccontextmanager
async def trusting(url: str) -> AsyncIterator[Enforcer]:
    async with Enforcer.connect(url, trust=[ROOT.public], recycling=None, deadline=0.3) as pep:
        yield pep


@pytest.mark.parametrize(("ahead", "words"), [(HOUR, "3,600 s ahead of"), (-HOUR, "3,600 s behind")])
async def test_a_pdp_whose_clock_is_wrong_is_named(server, ahead, words, caplog, monkeypatch):
    said = f"the clock of the PDP `{PDP.public}` is {words} this one"
    async with announcing(server.url, PDP, ahead=ahead), trusting(server.url) as pep:
        await eventually(lambda: pep.asker.authenticity.clocks.problem == said)
        assert f"{said}: its announcements are refused" in caplog.text
        denial = await pep.check(READ)
        assert (denial.reason, denial.detail.partition("; ")[2]) == (Reason.NO_PDP, said)
        metrics = {each.name: each.samples for each in EnforcerMetrics(pep).collect()}
        (sample,) = metrics["authfabric_pep_clock_skew_seconds"]
        assert (sample.labels, round(sample.value)) == ({"pdp": str(PDP.public)}, ahead)
        monkeypatch.setenv("AUTHFABRIC_TRUST", str(ROOT.public))
        words = ["doctor", "--url", server.url, "--json"]
        result = await asyncio.to_thread(CliRunner().invoke, app, words)
        (clocks,) = [each for each in json.loads(result.stdout)["findings"] if each["about"] == "clocks"]
        assert (clocks["well"], clocks["found"]) == (False, said)


async def test_a_pep_whose_clock_is_behind_says_so_where_chains_are_not_valid_yet(server):
    later = int(time()) + HOUR // 2
    async with (
        announcing(server.url, PDP, OTHER, ahead=HOUR, start=later),
        trusting(server.url) as pep,
    ):
        await eventually(lambda: len(pep.asker.authenticity.clocks.skews) == 2)
        assert not len(pep.asker.authenticity.deciders)
        denial = await pep.check(READ)
        assert denial.detail.endswith("; this clock is 3,600 s behind those of 2 PDPs")


async def test_who_is_not_empowered_is_not_said_to_have_a_wrong_clock(server):
    stranger = AnswerAuthority(PDP, [right(OTHER, PDP)], time() + HOUR)
    forged = AnswerAuthority(PDP, [right(ROOT, PDP)], time() + HOUR)
    async with Connection(server.url) as bus, trusting(server.url) as pep:
        before = pep.asker.authenticity.refused_introductions
        bus.send(ANNOUNCE, pack(stranger.announcement(["domain:default"], 5.0, time() + HOUR)))
        said = forged.announcement(["domain:default"], 5.0, time() + HOUR)
        other = AnswerAuthority(OTHER, [], time()).announcement(["domain:default"], 5.0, said.at)
        bus.send(
            ANNOUNCE, pack(type(said)(said.scopes, said.ttl, said.introduction, said.at, other.signature))
        )
        await eventually(lambda: pep.asker.authenticity.refused_introductions > before)
        await eventually(lambda: pep.asker.authenticity.refused_announcements)
        assert pep.asker.authenticity.clocks.problem == ""


def test_what_is_repeated_later_says_nothing_about_a_clock():
    clocks = Clocks()
    clocks.hear(PDP.public, at=5_000.0, now=5_000.0)
    clocks.hear(PDP.public, at=4_000.0, now=5_001.0)
    assert clocks.skews == {}


def test_a_clock_that_is_set_right_or_of_which_nothing_is_heard_is_forgotten():
    now = 0.0
    clocks = Clocks(lambda: now)
    for each in (PDP, OTHER):
        clocks.hear(each.public, at=9_000.0, now=5_000.0)
    clocks.hear(PDP.public, at=5_001.0, now=5_001.0)
    assert clocks.skews == {OTHER.public: 4_000.0}
    now = KEPT_SECONDS + 1
    assert clocks.problem == ""


def test_a_clock_that_is_set_back_is_named_when_nothing_newer_is_heard_any_more():
    now = 0.0
    clocks = Clocks(lambda: now)
    clocks.hear(PDP.public, at=5_000.0, now=5_000.0)
    now = KEPT_SECONDS + 1
    clocks.hear(PDP.public, at=5_000.0 - HOUR, now=5_000.0 + now)
    assert clocks.skews == {PDP.public: -HOUR - now}

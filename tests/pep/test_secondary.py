"""A PEP answers from its caches what a PDP would, under a lease, and otherwise asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from authz import Entity, Reason, Request
from authz.release import Released
from bus import NatsServer
from pep import UNVERIFIED, Enforcer, LeaseRules, Recycling, SyncEnforcer
from pep.secondary import _warn_of_no_trust
from sdp_cache import SnapshotRefused
from sdp_cache.snapshots.snapshot import Origin, Ruling, Tier
from sdp_cache.snapshots.writer import Precomputation, write_snapshot
from tests.deciders import Readers
from tests.pep.recycling_world import ANN, QUESTION, World, only, world
from tests.waiting import eventually
from tests.warrants import warrant


@pytest.fixture
async def here(tmp_path) -> AsyncIterator[World]:
    async with world(tmp_path) as running:
        yield running


async def test_the_same_question_is_asked_once(here):
    first = await here.push(only("bob"))
    async with here.replica(), here.pep() as pep:
        asked = await pep.check(QUESTION)
        known = await pep.check(QUESTION)
        assert (asked.allowed, asked.inferred) == (True, None)
        assert (known.allowed, known.epoch, known.inferred.method) == (True, first.epoch, "precise")
        assert (here.asked, known.inferred.answers) == (1, ("1",))
        assert (await pep.require(QUESTION)).inferred is not None
        decisions = await pep.check_many([QUESTION, ("eve", "/x", "read"), QUESTION])
        assert [each.allowed for each in decisions] == [True, False, True]
        assert here.asked == 2


async def test_what_follows_from_a_certificate_is_not_asked(here):
    await here.push(only("bob"))
    async with here.replica(), here.pep() as pep:
        await pep.check("bob", "/x", "read")
        known = await pep.check("bob", "/y", "write")
        assert (known.allowed, known.inferred.method) == (True, "certificate")
        assert here.asked == 1


async def test_a_release_voids_exactly_what_it_touches(here):
    await here.push(only("bob", "ann"))
    async with here.replica() as replica, here.pep() as pep:
        assert (await pep.check("bob", "/x", "read")).allowed
        assert (await pep.check("ann", "/x", "read")).allowed
        second = await here.push(only("ann"))
        await here.applied(second, replica, pep)
        assert not (await pep.check("bob", "/x", "read")).allowed
        ann = await pep.check("ann", "/x", "read")
        assert (ann.allowed, ann.epoch, ann.inferred.method) == (True, second.epoch, "precise")
        assert here.asked == 3


async def test_at_least_waits_for_the_policies_that_the_caller_has_seen(here):
    await here.push(only("bob"))
    async with here.replica() as replica, here.pep() as pep:
        assert (await pep.check(QUESTION)).allowed
        second = await here.push(only("ann"))
        decision = await pep.check(QUESTION, at_least=second.epoch)
        assert (decision.allowed, decision.epoch) == (False, second.epoch)
        await here.applied(second, replica, pep)
        decision = await pep.check(QUESTION, at_least=second.epoch + 1, deadline=0.05)
        assert (decision.reason, decision.decided) == (Reason.TIMEOUT, False)
        assert f"epoch {second.epoch + 1}" in decision.detail
        (decision,) = await pep.check_many([QUESTION], at_least=second.epoch)
        assert decision.epoch == second.epoch


async def test_without_trusted_keys_everything_is_asked_and_a_warning_says_so_once(here, caplog):
    _warn_of_no_trust.cache_clear()
    await here.push(only("bob"))
    async with here.replica():
        for _ in range(2):
            async with Enforcer.connect(here.server.url, deadline=10.0, trust=UNVERIFIED) as pep:
                for _ in range(3):
                    assert (await pep.check(QUESTION)).inferred is None
        assert here.asked == 6
    (said,) = [each for each in caplog.records if "whoever answers is believed" in each.message]
    assert said.levelno == logging.WARNING
    assert "AUTHFABRIC_TRUST" in said.message


async def test_the_environment_can_say_whom_to_trust(here, monkeypatch, tmp_path):
    (tmp_path / "trusted").write_text(f"# who releases\n{ANN.public}\n")
    monkeypatch.setenv("AUTHFABRIC_TRUST", str(tmp_path / "trusted"))
    await here.push(only("bob"))
    async with here.replica(), Enforcer.connect(here.server.url, deadline=10.0) as pep:
        await eventually(lambda: pep.secondary.feed.ready.is_set())
        await pep.check(QUESTION)
        assert (await pep.check(QUESTION)).inferred is not None


async def test_without_a_policy_store_everything_is_asked_and_the_log_says_so_once(caplog):
    from bus import Connection, Scope
    from pdp.replica.service import Replica

    readers = Readers()
    async with (
        NatsServer() as server,
        Connection(server.url) as bus,
        Replica(bus, readers, [Scope.parse("domain:default")], authority=warrant(ANN)),
        Enforcer.connect(server.url, trust=[ANN.public], deadline=10.0, lease=LeaseRules(0.01)) as pep,
    ):
        await eventually(lambda: pep.secondary.feed.problem)
        answers = [await pep.check(QUESTION) for _ in range(3)]
        assert [(each.allowed, each.inferred) for each in answers] == [(True, None)] * 3
        assert len(readers.asked) >= 3  # asked twice if the first answer was slow
    said = [each.message for each in caplog.records if "does not answer" in each.message]
    assert said
    assert len(said) == len(set(said))


async def test_recycling_can_be_switched_off(here):
    await here.push(only("bob"))
    async with (
        here.replica(),
        Enforcer.connect(here.server.url, trust=[ANN.public], recycling=None, deadline=10.0) as pep,
    ):
        assert pep.secondary is None
        for _ in range(2):
            assert (await pep.check(QUESTION)).inferred is None


async def test_each_way_of_recycling_can_be_switched_off(here):
    await here.push(only("bob"))
    off = Recycling(precise=0, saam_rbac=0, saam_blp=0, certificates=0)
    async with here.replica(), here.pep(recycling=off) as pep:
        for _ in range(2):
            assert (await pep.check(QUESTION)).inferred is None


async def test_what_cannot_be_asked_is_not_inferred_either(here):
    await here.push(only("bob"))
    async with here.replica(), here.pep() as pep:
        assert (await pep.check("bob", "/docs/x", "read")).allowed
        for request in (
            Request.of("bob", "/docs/../hr", "read"),
            Request.of(Entity("bob", {"x": object()}), "/docs/x", "read"),
        ):
            with pytest.raises(Exception, match="must"):
                await pep.check(request)


async def test_without_pdp_what_was_last_known_is_served_marked_stale_if_the_service_wants_that(here):
    await here.push(only("bob"))
    short = LeaseRules(seconds=0.2, stale_for=60.0)
    async with here.pep(short) as lenient, here.pep(LeaseRules(0.2)) as strict:
        async with here.replica():
            for pep in (lenient, strict):
                await eventually(lambda pep=pep: pep.asker.scopes)
                assert (await pep.check(QUESTION)).allowed
        await here.server.stop()
        denied = await until_without_lease(strict)
        stale = await until_without_lease(lenient)
        assert not denied.allowed
        assert denied.inferred is None
        assert (stale.allowed, stale.inferred.stale) == (True, True)
        assert not (await lenient.check("somebody", "/else", "read", deadline=0.1)).allowed
        assert not (await lenient.check(QUESTION, deadline=0.1, at_least=99)).allowed


async def until_without_lease(pep: Enforcer):
    """The first decision that is not an answer under a lease."""
    async with asyncio.timeout(60):
        while True:
            decision = await pep.check(QUESTION, deadline=0.1)
            if decision.inferred is None or decision.inferred.stale:
                return decision


async def test_threads_share_the_caches_too(here):
    await here.push(only("bob"))
    async with here.replica():

        def in_a_thread() -> list[bool]:
            with SyncEnforcer.connect(here.server.url, trust=[ANN.public], deadline=10.0) as pep:
                for _ in range(10_000):
                    if pep.check(QUESTION).inferred is not None:
                        return [
                            pep.require(QUESTION).allowed,
                            *(d.allowed for d in pep.check_many([QUESTION])),
                        ]
                return []

        assert await asyncio.to_thread(in_a_thread) == [True, True]


def origin(released: Released) -> Origin:
    return Origin("default", released.epoch, released.release.bundle)


def snapshot(origin: Origin) -> bytes:
    """Precomputed: bob may read /x."""
    allow = Tier(Ruling.ALLOW, b"\1\0\0\0")
    computed = Precomputation(
        origin, 4, ["bob"], b"\1\0\0\0", ["/x"], ["read"], b"\1\0\0\0", [allow], ["bob-may"]
    )
    return write_snapshot(computed, ANN)


async def test_a_snapshot_of_the_current_epoch_answers_without_a_pdp(here, tmp_path):
    released = await here.push(only("bob"))
    file = tmp_path / "snapshot"
    file.write_bytes(snapshot(origin(released)))
    async with here.pep(snapshot=file) as pep:
        decision = await pep.check(QUESTION)
        assert (decision.allowed, decision.inferred.method) == (True, "snapshot")
        await here.applied(await here.push(only("ann")), pep)
        assert not (await pep.check(QUESTION, deadline=0.05)).allowed


@pytest.mark.parametrize("other", [{"epoch": 2}, {"domain": "bank"}, {"bundle": "0" * 64}], ids=str)
async def test_a_snapshot_of_another_release_is_refused_and_questions_are_asked(
    here, tmp_path, caplog, other
):
    released = await here.push(only("bob"))
    file = tmp_path / "snapshot"
    file.write_bytes(snapshot(replace(origin(released), **other)))
    async with here.replica(), here.pep(snapshot=file) as pep:
        assert (await pep.check(QUESTION)).inferred is None
        with pytest.raises(SnapshotRefused, match="epoch"):
            pep.secondary.load(file)
        with pytest.raises(SnapshotRefused, match="cannot be read"):
            pep.secondary.load(tmp_path / "nothing")
    assert [each for each in caplog.records if "the snapshot is refused" in each.message]


async def test_no_answer_counts_that_is_older_than_the_releases_known_here(here):
    await here.push(only("bob"))
    async with here.replica() as follower, here.pep() as pep:
        assert (await pep.check(QUESTION)).allowed
        behind = follower.current
        follower.decide_many = behind.decide_many
        await here.applied(await here.push(only("ann")), pep)
        decision = await pep.check(QUESTION, deadline=0.5)
        assert (decision.allowed, decision.reason) == (False, Reason.TIMEOUT)
        assert "by epoch 2 or a newer one" in decision.detail
